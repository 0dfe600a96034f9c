#include "export/tables.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "export/run_export_reader.hpp"
#include "log/records.hpp"

namespace wmtp {
namespace {

struct Rows {
  const char *name, *sql;
};

// Of a resumed run, rows of all its segments; values that a later segment repeats, only from there.
constexpr std::array<Rows, 12> tables{{
    {"params", "SELECT key, value_text, value_num FROM run_params WHERE run_id = ?1 ORDER BY key"},
    {"plugins",
     "SELECT kind, name, version, sha256, path FROM run_plugins WHERE run_id = ?1 ORDER BY kind, "
     "name"},
    {"metrics", "SELECT step, name, value, kind, time_ns, segment FROM v_curves WHERE run_id = ?1 ORDER BY name, step"},
    {"segments", "SELECT segment, before_step FROM v_lineage WHERE run_id = ?1 ORDER BY segment"},
    {"rank_times",
     "SELECT segment, rank, step, phase, seconds FROM v_lineage AS l JOIN rank_times AS t ON t.run_id = l.segment "
     "WHERE l.run_id = ?1 ORDER BY segment, rank, phase, step"},
    {"memory",
     "SELECT segment, rank, step, phase, category, bytes FROM v_lineage AS l JOIN memory AS m ON m.run_id = l.segment "
     "WHERE l.run_id = ?1 ORDER BY segment, m.rowid"},
    {"checkpoints",
     "SELECT segment, step, path, bytes, state, time_ns FROM v_lineage AS l JOIN checkpoints AS c "
     "ON c.run_id = l.segment WHERE l.run_id = ?1 ORDER BY segment, step, path"},
    {"events",
     "SELECT segment, time_ns, rank, level, kind, step, message FROM v_lineage AS l JOIN events AS e "
     "ON e.run_id = l.segment WHERE l.run_id = ?1 ORDER BY segment, time_ns, e.rowid"},
    {"evaluations",
     "SELECT e.id, e.time_ns, e.suite, e.suite_sha256, e.max_tokens, e.temperature, e.top_p, e.seed, a.task_id, "
     "a.sample, a.verdict, a.seconds, a.told, a.answer FROM evaluations AS e JOIN evaluation_answers AS a "
     "ON a.evaluation_id = e.id WHERE e.run_id = ?1 ORDER BY e.id, a.task_id, a.sample"},
    {"text_losses",
     "SELECT e.id, e.time_ns, e.texts, e.texts_sha256, s.stride, l.head, l.tokens, l.loss, b.bytes "
     "FROM text_evaluations AS e JOIN text_losses AS l ON l.evaluation_id = e.id "
     "LEFT JOIN text_strides AS s ON s.evaluation_id = e.id "
     "LEFT JOIN text_bytes AS b ON b.evaluation_id = e.id AND b.head = l.head "
     "WHERE e.run_id = ?1 ORDER BY e.id, l.head"},
    {"samples",
     "SELECT s.step, s.sequence, s.position, s.head, token_id, text, weight, loss, reference_loss, product, cosine "
     "FROM v_lineage AS l JOIN samples AS s ON s.run_id = l.segment AND s.step < l.before_step "
     "LEFT JOIN sample_alignments AS a ON a.run_id = s.run_id AND a.step = s.step AND a.sequence = s.sequence "
     "AND a.position = s.position AND a.head = s.head "
     "WHERE l.run_id = ?1 ORDER BY s.step, s.sequence, s.position, s.head"},
    {"generations",
     "SELECT step, number, prompt, text FROM v_lineage AS l JOIN generations AS g ON g.run_id = l.segment "
     "AND g.step < l.before_step WHERE l.run_id = ?1 ORDER BY step, number"},
}};

void write_rows(const LogReader& log, const Rows& rows, int64_t run, const TextOutput& out) {
  std::vector<std::string> columns;
  const char* before = "\n   ";
  out(std::string(",\n  ") + dumped(OrderedJson(rows.name)) + ": [");
  const auto on_row = [&](const Statement& statement) {
    if (columns.empty()) columns = column_names(statement);
    Row row = read_row(statement);
    OrderedJson object = OrderedJson::object();
    for (size_t i = 0; i < row.size(); ++i) object[columns[i]] = std::move(row[i]);
    out(before + dumped(object));
    before = ",\n   ";
  };
  log.each_row(rows.sql, {run}, on_row, LogReader::unlimited);
  out("]");
}

}  // namespace

void write_metrics_csv(const LogReader& log, const std::vector<int64_t>& runs, const TextOutput& out) {
  out("run_id,run,step,name,value,kind,time_ns,segment\r\n");
  for (const int64_t run : runs) {
    const RunExportReader rows(log, run);
    const std::string head = std::to_string(run) + "," + csv_field(rows.text("name")) + ",";
    for (const std::string& name : rows.metric_names()) {
      const std::string metric = "," + csv_field(name) + ",";
      rows.each_point(name, [&](const LoggedPoint& point) {
        const char* kind = non_finite_name(point.value);
        out(head + std::to_string(point.step) + metric + (kind ? std::string(kind) : shortest_digits(point.value)) +
            "," + (kind ? kind : "") + "," + std::to_string(point.time_ns) + "," + std::to_string(point.segment) +
            "\r\n");
      });
    }
  }
}

void write_wide_csv(const LogReader& log, int64_t run, const TextOutput& out) {
  std::map<std::string, size_t> columns;
  std::string head = "step,timestamp";
  for (const std::string& name : RunExportReader(log, run).metric_names()) {
    columns.emplace(name, columns.size());
    head += "," + csv_field(name);
  }
  out(head + "\r\n");
  std::vector<std::string> cells;
  std::string begin;  // of the current row, "" before the first
  const auto finish_row = [&] {
    if (begin.empty()) return;
    std::string row = begin;
    for (const std::string& cell : cells) row += "," + cell;
    out(row + "\r\n");
  };
  int64_t step = -1;
  const auto on_row = [&](const Statement& row) {
    if (row.integer(0) != step) {
      finish_row();
      cells.assign(columns.size(), "");
      step = row.integer(0);
    }
    begin = std::to_string(step) + "," + row.text(4);
    const double value = logged_number(row, 2, 3);
    const char* kind = non_finite_name(value);
    cells.at(columns.at(row.text(1))) = kind ? kind : shortest_digits(value);
  };
  log.each_row(
      "SELECT step, name, value, kind, strftime('%Y-%m-%dT%H:%M:%fZ', min(time_ns) OVER (PARTITION BY step) / 1e9, "
      "'unixepoch') FROM v_curves WHERE run_id = ?1 ORDER BY step, name",
      {run}, on_row, LogReader::unlimited);
  finish_row();
}

void write_runs_json(const LogReader& log, const std::vector<int64_t>& runs, const TextOutput& out) {
  const char* before = "[\n {";
  for (const int64_t run : runs) {
    const Table row = log.query(
        "SELECT v.*, c.command, r.experiment_toml, r.resolved_toml FROM v_runs AS v JOIN runs AS r ON r.id = v.id "
        "LEFT JOIN run_commands AS c ON c.run_id = v.id WHERE v.id = ?1",
        {run});
    out(before);
    const char* between = "\n  ";
    for (size_t i = 0; i < row.columns.size(); ++i) {
      out(between + dumped(OrderedJson(row.columns[i])) + ": " + dumped(row.rows.at(0)[i]));
      between = ",\n  ";
    }
    for (const Rows& table : tables) write_rows(log, table, run, out);
    out("}");
    before = ",\n {";
  }
  out("\n]\n");
}

}  // namespace wmtp
