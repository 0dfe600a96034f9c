// `runs show`, declared in runs.hpp.
#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "experiment/canonical.hpp"
#include "experiment/experiment.hpp"
#include "log/log_option.hpp"
#include "report/curve.hpp"
#include "report/rank_times.hpp"
#include "report/runs.hpp"
#include "report/summary.hpp"
#include "report/terminal.hpp"

namespace wmtp {
namespace {

constexpr int64_t events_shown = 20;

/// Aggregates each segment by itself along the index. A total grows, so its extremes are its first and last values.
const char* const select_metrics = R"sql(
  WITH parts AS (
    SELECT v.name_id, count(*) AS points, min(v.step) AS first_step, max(v.step) AS last_step, min(v.value) AS lowest,
      max(v.value) AS highest, count(v.kind) AS not_finite
    FROM v_lineage AS l CROSS JOIN metric_values AS v ON v.run_id = l.segment AND v.step < l.before_step
    WHERE l.run_id = ?1 GROUP BY l.segment, v.name_id),
  m AS (SELECT n.name, sum(points) AS points, min(first_step) AS first_step, max(last_step) AS last_step,
    min(lowest) AS lowest, max(highest) AS highest, sum(not_finite) AS not_finite,
    n.name GLOB 'time/*' OR n.name IN ('perf/run_tokens', 'perf/run_seconds') AS total
    FROM parts JOIN metric_names AS n ON n.id = name_id GROUP BY n.name)
  SELECT m.name, points, f.value AS first, c.value AS last, iif(total, f.value, lowest) AS lowest,
    iif(total, c.value, highest) AS highest, last_step, not_finite
  FROM m CROSS JOIN v_curves AS f ON f.run_id = ?1 AND f.name = m.name AND f.step = first_step
  CROSS JOIN v_curves AS c ON c.run_id = ?1 AND c.name = m.name AND c.step = last_step
  GROUP BY m.name ORDER BY m.name)sql";
const char* const select_segments =
    "SELECT l.segment AS run, s.status, "
    "(SELECT min(step) FROM metrics WHERE run_id = l.segment AND name = 'train/loss') AS first_step, "
    "(SELECT max(step) FROM metrics WHERE run_id = l.segment AND name = 'train/loss' AND step < l.before_step) "
    "AS last_step, s.started_at, s.ended_at, s.world_size FROM v_lineage AS l JOIN runs AS s ON s.id = l.segment "
    "WHERE l.run_id = ?1 ORDER BY l.segment";
const char* const select_plugins =
    "SELECT kind, name, version, sha256, path FROM run_plugins WHERE run_id = ?1 ORDER BY kind, name";
const char* const select_memory =
    "SELECT rank, category, bytes, phase, step FROM v_memory_peak WHERE run_id = ?1 "
    "ORDER BY rank, bytes DESC";
const char* const select_checkpoints =
    "SELECT step, state, bytes, path FROM checkpoints "
    "WHERE run_id IN (SELECT segment FROM v_lineage WHERE run_id = ?1) ORDER BY run_id, step, path";
const char* const select_generations =
    "SELECT g.step, g.prompt, g.text FROM v_lineage AS l JOIN generations AS g "
    "ON g.run_id = l.segment AND g.step < l.before_step WHERE l.run_id = ?1 ORDER BY g.step, g.number";
const char* const select_evaluations =
    "SELECT id, suite, temperature, problems, answers, passed, pass_at_1, time FROM v_evaluations "
    "WHERE run_id = ?1 ORDER BY id";
const char* const select_text_losses =
    "SELECT id, texts, stride, head, tokens, loss, NULL AS perplexity, bytes, bits_per_byte, time FROM v_text_losses "
    "WHERE run_id = ?1 ORDER BY id, head";
const char* const select_events =
    "SELECT strftime('%Y-%m-%dT%H:%M:%SZ', time_ns / 1000000000, 'unixepoch') AS time, level, kind, rank, step, "
    "message "
    "FROM events WHERE run_id IN (SELECT segment FROM v_lineage WHERE run_id = ?1) ORDER BY time_ns DESC";
const char* const select_params = "SELECT key, value_text AS value FROM run_params WHERE run_id = ?1 ORDER BY key";

OrderedJson objects_of(const Table& table) {
  OrderedJson array = OrderedJson::array();
  for (size_t row = 0; row < table.rows.size(); ++row) array.push_back(row_object(table, row));
  return array;
}

OrderedJson run_object(const LogReader& log, int64_t id) {
  const Table run = log.query(
      "SELECT v.*, c.command, r.experiment_toml, r.resolved_toml FROM v_runs AS v JOIN runs AS r ON r.id = v.id "
      "LEFT JOIN run_commands AS c ON c.run_id = v.id WHERE v.id = ?1",
      {id});
  if (run.rows.empty()) {
    throw Error(ExitStatus::usage, "no run " + std::to_string(id) + " in " + log.database().string() +
                                       "; see `wmtp-host runs list" + log_option(log.database()) + "`");
  }
  return row_object(run, 0);
}

/// Computes the perplexity here, because SQLite may have been built without exp().
Table text_losses(const LogReader& log, int64_t id) {
  Table table = log.query(select_text_losses, {id});
  for (auto& row : table.rows)
    if (row[5].is_number()) row[6] = std::exp(row[5].get<double>());
  return table;
}

void print_json_run(std::ostream& out, const LogReader& log, OrderedJson run, int64_t id) {
  OrderedJson params = OrderedJson::object();
  for (const auto& row : log.query(select_params, {id}).rows) params[row[0].get<std::string>()] = row[1];
  run["params"] = params;
  run["plugins"] = objects_of(log.query(select_plugins, {id}));
  run["segments"] = objects_of(log.query(select_segments, {id}));
  run["metrics"] = objects_of(metrics_of_run(log, id));
  run["rank_seconds"] = objects_of(rank_time_table(log, id));
  run["memory_peak"] = objects_of(log.query(select_memory, {id}));
  run["checkpoints"] = objects_of(log.query(select_checkpoints, {id}));
  run["generations"] = objects_of(log.query(select_generations, {id}));
  run["evaluations"] = objects_of(log.query(select_evaluations, {id}));
  run["text_losses"] = objects_of(text_losses(log, id));
  run["events"] = objects_of(log.query(select_events, {id}));
  out << dumped(run, 1) << '\n';
}

/// Means over at most 120 intervals of steps, so that a long run costs no more than a short one.
Curve curve_of(const LogReader& log, int64_t id, const std::string& name) {
  const Table table = log.query(
      "WITH points AS (SELECT step, value FROM v_curves WHERE run_id = ?1 AND name = ?2 "
      "AND value IS NOT NULL), span AS (SELECT min(step) AS low, max(step) - min(step) + 1 AS wide FROM points) "
      "SELECT avg(step), avg(value) FROM points, span GROUP BY (step - low) * 120 / wide ORDER BY 1",
      {id, name});
  Curve curve{name, {}};
  for (const auto& row : table.rows) curve.points.push_back({row[0].get<double>(), row[1].get<double>()});
  return curve;
}

void require_metrics(const LogReader& log, int64_t id, const std::vector<std::string>& metrics) {
  std::vector<std::string> names;
  for (const Row& row : log.query("SELECT DISTINCT name FROM v_curves WHERE run_id = ?1", {id}).rows)
    names.push_back(row[0]);
  for (const std::string& metric : metrics) {
    if (std::find(names.begin(), names.end(), metric) != names.end()) continue;
    const std::string nearest = nearest_name(metric, names);
    throw Error(ExitStatus::usage,
                "run " + std::to_string(id) + " has no metric " + metric +
                    (nearest.empty() ? "; its metrics: " + join_names(names) : "; did you mean '" + nearest + "'?"));
  }
}

void print_curves(std::ostream& out, const LogReader& log, int64_t id, const std::vector<std::string>& metrics) {
  const auto print = [&](const Curve& line, const Curve& marks) {
    if (line.points.size() + marks.points.size() > 1) out << '\n';
    print_curve(out, line, marks, shows_blocks(out));
  };
  if (metrics.empty()) {
    // Not on one axis: a training loss has the weights, a validation loss has none.
    print(curve_of(log, id, "train/loss"), {});
    Curve validation = curve_of(log, id, "valid/ce_head_1");
    if (validation.points.empty()) validation = curve_of(log, id, "valid/loss");
    print({}, validation);
  }
  for (const std::string& metric : metrics) print(curve_of(log, id, metric), {});
}

void print_section(std::ostream& out, const std::string& title, const Table& table) {
  if (table.rows.empty()) return;
  out << '\n' << title << '\n';
  print_table(out, table, TableFormat::text);
}

/// The options of the run's experiment that differ from the defaults, as in its TOML.
Table chosen_options(const std::string& resolved_toml) {
  const auto each_option = [](const std::string& toml, const auto& on_option) {
    std::string table;
    std::istringstream lines(toml);
    for (std::string line; std::getline(lines, line);) {
      const size_t equals = line.find(" = ");
      if (line.starts_with('[')) table = line.substr(1, line.size() - 2) + ".";
      if (equals != line.npos && line[0] != '#') on_option(table + line.substr(0, equals), line.substr(equals + 3));
    }
  };
  std::map<std::string, std::string> defaults;
  each_option(to_toml(Experiment{}), [&](const std::string& key, const std::string& value) { defaults[key] = value; });
  Table options{{"key", "value"}, {}, false};
  each_option(resolved_toml, [&](const std::string& key, const std::string& value) {
    if (const auto found = defaults.find(key); found == defaults.end() || found->second != value)
      options.rows.push_back({key, value});
  });
  return options;
}

void print_head(std::ostream& out, const OrderedJson& run, const std::string& result) {
  const auto text = [&run](const char* key) { return shown(run.at(key)); };
  out << "run " << text("id") << "  " << text("name") << "  " << text("status");
  if (!run.at("exit_code").is_null()) out << " (exit " << text("exit_code") << ")";
  out << '\n';
  if (!result.empty()) out << "  result     " << result << '\n';
  if (!run.at("valid_head_1").is_null())
    out << "  head 1     validation loss " << text("valid_head_1") << ", lowest " << text("best_valid_head_1") << '\n';
  out << "  pipeline   " << text("pipeline") << ", adapter " << text("adapter") << '\n'
      << "  started    " << text("started_at") << ", ended " << text("ended_at") << ", "
      << human_whole_seconds(run.at("seconds").is_number() ? run.at("seconds").get<double>() : 0) << '\n'
      << "  layout     " << counted(run.at("world_size").get<int64_t>(), "rank") << ", " << text("strategy") << ", "
      << text("precision") << ", " << text("device") << '\n';
  if (run.at("tokens_per_second").is_number())
    out << "  speed      " << speed_text(run.at("tokens_per_second"), run.at("mfu"), run.at("mfu_of")) << '\n';
  out << "  seed       " << text("seed") << '\n'
      << "  config     " << text("config_hash") << '\n'
      << "  program    " << text("version");
  if (run.at("git_commit") != "") out << ", commit " << text("git_commit");
  if (run.at("host") != "") out << ", on " << text("host");
  out << '\n';
  if (!run.at("command").is_null()) out << "  command    " << one_line(run.at("command").get<std::string>()) << '\n';
  if (!run.at("parent_run").is_null()) out << "  resumed    run " << text("parent_run") << '\n';
  if (!run.at("resumed_by").is_null()) out << "  continued  by run " << text("resumed_by") << '\n';
  if (!run.at("tags").is_null()) out << "  tags       " << one_line(run.at("tags").get<std::string>()) << '\n';
  if (!run.at("note").is_null()) out << "  note       " << one_line(run.at("note").get<std::string>()) << '\n';
  if (run.at("archived") != 0) out << "  archived   hidden from lists; `runs archive --undo` shows it again\n";
  if (run.at("log_incomplete") != 0) {
    out << "  log        incomplete: rows that could not be written to the database are next to it in *.run-"
        << text("id") << ".spool\n";
  }
}

/// The newest comparison of the heads' gradients (docs/heads.md): cosines of each two, and norms.
void print_heads(std::ostream& out, const Table& metrics) {
  int64_t step = 0;
  for (const Row& row : metrics.rows)
    if (row[0].get<std::string>().starts_with("heads/")) step = std::max(step, row[6].get<int64_t>());
  std::map<std::string, Json> last;
  for (const Row& row : metrics.rows)
    if (row[6] == step) last[row[0].get<std::string>()] = row[3];
  int64_t heads = 0;
  while (last.contains("heads/norm_" + std::to_string(heads + 1))) ++heads;
  if (heads < 2) return;
  Table matrix{{"head"}, {}, false};
  for (int64_t k = 1; k <= heads; ++k) {
    const std::string name = std::to_string(k);
    matrix.columns.push_back(name);
    Row& row = matrix.rows.emplace_back(Row{k});
    for (int64_t j = 1; j <= heads; ++j)
      row.push_back(j == k ? Json(1) : last[printed("heads/cosine_%d_%d", int(std::min(j, k)), int(std::max(j, k)))]);
    row.push_back(last.at("heads/norm_" + name));
  }
  matrix.columns.push_back("norm");
  print_section(out, "cosines of the heads' gradients at step " + std::to_string(step), matrix);
}

/// The newest reliability diagram of each value head (docs/metrics.md): a row for each bin of predicted values.
void print_calibration(std::ostream& out, const Table& metrics) {
  constexpr const char* part = "/calibration/";
  std::map<std::string, int64_t> last_step;  // of each head: a bin may have been empty since
  for (const Row& row : metrics.rows) {
    const auto name = row[0].get<std::string>();
    if (const size_t at = name.find(part); at != std::string::npos)
      last_step[name.substr(0, at)] = std::max(last_step[name.substr(0, at)], row[6].get<int64_t>());
  }
  for (const auto& [head, step] : last_step) {
    Table table{{"bin", "tokens", "value", "outcome"}, {}, false};
    for (int bin = 0; bin < 10; ++bin) {
      std::map<std::string, Json> cells;
      for (const Row& row : metrics.rows)
        for (const char* column : {"tokens", "value", "outcome"})
          if (row[0] == head + part + std::to_string(bin) + "/" + column && row[6] == step) cells[column] = row[3];
      if (!cells.empty())
        table.rows.push_back(
            {printed("%.1f to %.1f", bin / 10.0, (bin + 1) / 10.0), cells["tokens"], cells["value"], cells["outcome"]});
    }
    print_section(out, "calibration of " + head.substr(head.find('/') + 1) + " at step " + std::to_string(step), table);
  }
}

void print_text_run(std::ostream& out, const LogReader& log, const OrderedJson& run, int64_t id,
                    const std::vector<std::string>& metrics) {
  print_head(out, run, result_text(log, id));
  print_curves(out, log, id, metrics);
  const Table all = metrics_of_run(log, id);
  print_section(out, "metrics", all);
  print_heads(out, all);
  print_calibration(out, all);

  Table times = rank_time_table(log, id);
  for (auto& row : times.rows)
    for (size_t column = 1; column < row.size(); ++column) row[column] = human_seconds(row[column].get<double>());
  const auto slowest = slowest_rank(log, id);
  print_section(out, "time by rank" + (slowest ? ": " + slowest_rank_text(*slowest) : ""), times);
  int64_t rank = 0;
  const Table tensors = peaks_by_phase(log, id, rank);
  print_section(out, "tensors on rank " + std::to_string(rank) + ", peak per phase", tensors);
  Table memory = log.query(select_memory, {id});
  for (auto& row : memory.rows) row[2] = human_bytes(row[2].get<int64_t>());
  print_section(out, "peak memory", memory);
  if (run.at("segments") != 1) print_section(out, "segments", log.query(select_segments, {id}));
  Table checkpoints = log.query(select_checkpoints, {id});
  for (auto& row : checkpoints.rows) row[2] = human_bytes(row[2].get<int64_t>());
  print_section(out, "checkpoints", checkpoints);
  Table texts = log.query(select_generations, {id});
  if (!texts.rows.empty())
    std::erase_if(texts.rows, [last = texts.rows.back()[0]](const Row& row) { return row[0] != last; });
  print_section(out, "samples of the last step", texts);
  print_section(out, "evaluations", log.query(select_evaluations, {id}));
  print_section(out, "losses on texts", text_losses(log, id));
  Table events = log.query(select_events, {id}, events_shown);
  std::reverse(events.rows.begin(), events.rows.end());
  print_section(out, events.capped ? "last events" : "events", {events.columns, events.rows, false});
  print_section(out, "plugins",
                log.query("SELECT kind, name, version, substr(sha256, 1, 12) AS sha256, path "
                          "FROM run_plugins WHERE run_id = ?1 ORDER BY kind, name",
                          {id}));
  print_section(out, "options that are not defaults (all: --toml)",
                chosen_options(run.at("resolved_toml").get<std::string>()));
}

}  // namespace

void print_run(std::ostream& out, const LogReader& log, int64_t id, bool as_json,
               const std::vector<std::string>& metrics) {
  const OrderedJson run = run_object(log, id);
  if (as_json) return print_json_run(out, log, run, id);
  require_metrics(log, id, metrics);
  print_text_run(out, log, run, id, metrics);
}

Table metrics_of_run(const LogReader& log, int64_t run_id) { return log.query(select_metrics, {run_id}); }

std::string runnable_experiment(const LogReader& log, int64_t run_id) {
  const auto text =
      log.query("SELECT resolved_toml FROM runs WHERE id = ?1", {run_id}).rows.at(0)[0].get<std::string>();
  const size_t valid = valid_utf8_prefix(text);
  if (valid == text.size()) return text;
  const size_t begin = text.rfind('\n', valid) + 1;  // npos + 1: the first line
  throw Error(ExitStatus::usage, printed("the experiment of run %lld: found byte 0x%02x, wanted UTF-8, in ",
                                         static_cast<long long>(run_id), uint8_t(text[valid])) +
                                     repaired_utf8(first_line(text.substr(begin))) +
                                     "; rename the folder and run it again there");
}

void print_experiment(std::ostream& out, const LogReader& log, int64_t run_id) {
  out << runnable_experiment(log, run_id);
}

}  // namespace wmtp
