#include "report/compare.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

struct LoggedValues {
  int64_t id = 0;
  std::map<std::string, std::string> params;
  /// The last value of each metric; speed and mfu over all steps; and the lowest validation loss of head 1, or of an
  /// objective.
  std::map<std::string, double> metrics;
};

std::map<std::string, std::string> params_of(const LogReader& log, int64_t run) {
  std::map<std::string, std::string> params;
  for (const auto& row : log.query("SELECT key, value_text FROM run_params WHERE run_id = ?1", {run}).rows)
    params[row[0]] = row[1];
  return params;
}

/// A row for each key whose values differ.
Table differing(std::vector<std::string> columns, const std::map<std::string, std::vector<Json>>& values_of_key) {
  Table table{std::move(columns), {}, false};
  for (const auto& [key, values] : values_of_key) {
    if (std::ranges::adjacent_find(values, std::not_equal_to()) == values.end()) continue;
    table.rows.push_back({key});
    table.rows.back().insert(table.rows.back().end(), values.begin(), values.end());
  }
  return table;
}

/// The runs given by one word of the command, by seed.
struct Side {
  std::string word;
  std::map<int64_t, LoggedValues> runs;
};

/// The names of a sweep's runs, NAME-KEY-VALUE, if no run has the sweep's own name; else the word.
std::vector<std::string> resolve_run_names(const LogReader& log, const std::string& word) {
  std::vector<std::string> names;
  log.each_row(
      "SELECT name FROM runs WHERE status = 'finished' AND substr(name, 1, length(?1) + 1) = ?1 || '-' "
      "AND NOT EXISTS (SELECT 1 FROM runs WHERE name = ?1 OR CAST(id AS TEXT) = ?1) GROUP BY name ORDER BY min(id)",
      {word}, [&](const Statement& row) { names.push_back(row.text(0)); });
  return names.empty() ? std::vector{word} : names;
}

class Comparison {
 public:
  Comparison(const LogReader& log, const std::vector<std::string>& words) : log_(log) {
    for (const std::string& word : words)
      for (const std::string& name : resolve_run_names(log, word)) sides_.push_back(side_of(name));
    if (sides_.size() < 2) throw Error(ExitStatus::usage, "found fewer than two runs to compare");
  }

  /// Keys whose values differ between runs; the seed only if no side has several.
  Table params() const {
    std::map<std::string, std::vector<Json>> values;
    each([&](const LoggedValues& run) {
      for (const auto& [key, value] : run.params) values[key];
    });
    if (has_seeds()) values.erase("seed");
    for (auto& [key, row] : values)
      for (const Side& side : sides_) row.push_back(values_of(side, key));
    return differing(columns("key"), values);
  }

  /// Validation first, then training, then the others, with time and speed last.
  std::vector<std::string> metric_names() const {
    std::set<std::pair<size_t, std::string>> names;
    each([&](const LoggedValues& run) {
      for (const auto& [name, value] : run.metrics) names.emplace(place_of(name), name);
    });
    std::vector<std::string> ordered;
    for (const auto& [place, name] : names) ordered.push_back(name);
    return ordered;
  }

  MeanAndError figure(const Side& side, const std::string& name) const {
    std::vector<double> values;
    for (const auto& [seed, run] : side.runs)
      if (const auto found = run.metrics.find(name); found != run.metrics.end()) values.push_back(found->second);
    return mean_and_error(values);
  }

  /// Difference from the first side, over seeds that both have; between two single runs regardless of their seeds. None
  /// if the metric does not measure the same in both.
  MeanAndError difference(const Side& side, const std::string& name) const {
    const Side& first = sides_.front();
    std::vector<double> values;
    const auto add = [&](const LoggedValues& here, const LoggedValues& there) {
      const auto a = here.metrics.find(name), b = there.metrics.find(name);
      if (a != here.metrics.end() && b != there.metrics.end() && is_same_quantity(name, here, there))
        values.push_back(a->second - b->second);
    };
    if (side.runs.size() == 1 && first.runs.size() == 1) {
      add(side.runs.begin()->second, first.runs.begin()->second);
    } else {
      for (const auto& [seed, run] : side.runs)
        if (const auto same = first.runs.find(seed); same != first.runs.end()) add(run, same->second);
    }
    return mean_and_error(values);
  }

  /// Whether some difference of `name` is not taken.
  bool is_incomparable(const std::string& name) const {
    bool found = false;
    each([&](const LoggedValues& run) {
      found =
          found || (run.metrics.contains(name) && !is_same_quantity(name, run, sides_.front().runs.begin()->second));
    });
    return found;
  }

  bool has_seeds() const {
    return std::any_of(sides_.begin(), sides_.end(), [](const Side& side) { return side.runs.size() > 1; });
  }
  const std::vector<Side>& sides() const { return sides_; }
  std::vector<std::string> columns(const std::string& first) const {
    std::vector<std::string> names{first};
    for (const Side& side : sides_) names.push_back(title(side));
    return names;
  }
  static std::string title(const Side& side) {
    if (side.runs.size() > 1) return side.word + " (" + std::to_string(side.runs.size()) + " seeds)";
    const std::string number = std::to_string(side.runs.begin()->second.id);
    return side.word == number ? "run " + number : side.word + " (run " + number + ")";
  }

 private:
  static size_t place_of(const std::string& name) {
    constexpr std::array first{"valid/", "train/"}, last{"perf/", "time/"};
    for (size_t i = 0; i < first.size(); ++i)
      if (name.starts_with(first[i])) return i;
    for (size_t i = 0; i < last.size(); ++i)
      if (name.starts_with(last[i])) return first.size() + 1 + i;
    return first.size();
  }

  /// A training loss contains the weights; a mean over heads depends on their number.
  static bool is_same_quantity(const std::string& name, const LoggedValues& a, const LoggedValues& b) {
    const bool is_weighted = name == "train/loss";
    if (!is_weighted && name != "train/ce" && !name.starts_with("valid/loss")) return true;
    const auto matters = [&](const std::string& key) {
      if (key == "model.future_tokens") return true;
      return is_weighted && (key.starts_with("pipeline.") || key == "train.normalize" || key == "train.head_weights");
    };
    const auto chosen = [&](const LoggedValues& run) {
      std::map<std::string, std::string> params;
      for (const auto& [key, value] : run.params)
        if (matters(key)) params[key] = value;
      return params;
    };
    return chosen(a) == chosen(b);
  }

  Side side_of(const std::string& word) const {
    Side side{word, {}};
    const Table seeds =
        log_.query("SELECT seed, max(id) FROM runs WHERE name = ?1 AND status = 'finished' GROUP BY seed", {word});
    for (const auto& row : seeds.rows) side.runs[row[0].get<int64_t>()] = values(row[1].get<int64_t>());
    if (!side.runs.empty()) return side;
    const int64_t id = log_.resolve_run(word);
    const Table seed = log_.query("SELECT seed FROM runs WHERE id = ?1", {id});
    side.runs[seed.rows.at(0).at(0).get<int64_t>()] = values(id);
    return side;
  }

  LoggedValues values(int64_t id) const {
    LoggedValues run{id, params_of(log_, id), {}};
    for (const auto& row :
         log_.query("SELECT name, value FROM v_latest WHERE run_id = ?1 "
                    "AND name NOT IN ('perf/tokens_per_second', 'perf/mfu', 'perf/run_tokens', 'perf/run_seconds') "
                    "UNION ALL "
                    "SELECT iif(best_valid_head_1 IS NULL, 'valid/loss, lowest', 'valid/ce_head_1, lowest'), "
                    "coalesce(best_valid_head_1, best_valid_loss) FROM v_runs WHERE id = ?1 UNION ALL "
                    "SELECT 'perf/tokens_per_second', tokens_per_second FROM v_runs WHERE id = ?1 "
                    "UNION ALL SELECT 'perf/mfu', mfu FROM v_runs WHERE id = ?1",
                    {id})
             .rows)
      if (row[1].is_number()) run.metrics[row[0]] = row[1];
    return run;
  }

  static Json values_of(const Side& side, const std::string& key) {
    std::set<std::string> values;
    for (const auto& [seed, run] : side.runs)
      if (const auto found = run.params.find(key); found != run.params.end()) values.insert(found->second);
    if (values.empty()) return nullptr;
    std::string text;
    for (const std::string& value : values) text += (text.empty() ? "" : " | ") + value;
    return text;
  }

  template <class Visit>
  void each(Visit visit) const {
    for (const Side& side : sides_)
      for (const auto& [seed, run] : side.runs) visit(run);
  }

  const LogReader& log_;
  std::vector<Side> sides_;
};

/// The metrics of every side, then the differences of later sides from the first. `all`: also times and speeds.
void print_metrics(std::ostream& out, const Comparison& comparison, bool all) {
  Table table{comparison.columns("metric"), {}, false};
  for (size_t i = 1; i < comparison.sides().size(); ++i)
    table.columns.push_back(comparison.sides()[i].word + " - " + comparison.sides()[0].word);
  std::vector<std::string> incomparable;
  bool hides = false;
  for (const std::string& name : comparison.metric_names()) {
    if (!all && (name.starts_with("time/") || name.starts_with("perf/"))) {
      hides = true;
      continue;
    }
    if (comparison.is_incomparable(name)) incomparable.push_back(name);
    std::vector<Json> row{name};
    for (const Side& side : comparison.sides()) row.push_back(with_error(comparison.figure(side, name)));
    for (size_t i = 1; i < comparison.sides().size(); ++i)
      row.push_back(with_error(comparison.difference(comparison.sides()[i], name), true));
    table.rows.push_back(std::move(row));
  }
  print_table(out, table, TableFormat::text);
  if (!incomparable.empty())
    out << "\nno difference of " << join_names(incomparable)
        << ": the weights or the number of heads differ; compare valid/ce_head_1\n";
  if (hides) out << (incomparable.empty() ? "\n" : "") << "time/ and perf/ are shown with --all\n";
}

OrderedJson to_json_value(const MeanAndError& of) {
  if (of.count == 0) return nullptr;
  return {
      {"mean", of.mean}, {"standard_error", of.count > 1 ? OrderedJson(of.error) : OrderedJson()}, {"count", of.count}};
}

void print_json(std::ostream& out, const Comparison& comparison) {
  OrderedJson all{
      {"runs", OrderedJson::array()}, {"params", OrderedJson::object()}, {"metrics", OrderedJson::object()}};
  for (const Side& side : comparison.sides()) {
    OrderedJson ids = OrderedJson::object();
    for (const auto& [seed, run] : side.runs) ids[std::to_string(seed)] = run.id;
    all["runs"].push_back({{"word", side.word}, {"run_of_seed", ids}});
  }
  for (const auto& row : comparison.params().rows)
    all["params"][row[0].get<std::string>()] = std::vector<Json>(row.begin() + 1, row.end());
  for (const std::string& name : comparison.metric_names()) {
    OrderedJson figures = OrderedJson::array(), differences = OrderedJson::array();
    for (const Side& side : comparison.sides()) {
      figures.push_back(to_json_value(comparison.figure(side, name)));
      differences.push_back(to_json_value(comparison.difference(side, name)));
    }
    all["metrics"][name] = {{"last", figures}, {"difference_from_first", differences}};
  }
  out << all.dump(1, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
}

}  // namespace

MeanAndError mean_and_error(const std::vector<double>& values) {
  MeanAndError of;
  of.count = int64_t(values.size());
  if (values.empty()) return of;
  for (const double value : values) of.mean += value / double(of.count);
  double squares = 0;
  for (const double value : values) squares += (value - of.mean) * (value - of.mean);
  if (of.count > 1) of.error = std::sqrt(squares / double(of.count - 1) / double(of.count));
  return of;
}

std::string with_error(const MeanAndError& of, bool signed_number) {
  if (of.count == 0) return "-";
  const std::string number = signed_number ? printed("%+.4g", of.mean) : shown(of.mean);
  return of.count == 1 ? number : number + printed(" ± %.2g", of.error);
}

Table differing_params(const LogReader& log, const std::vector<int64_t>& runs) {
  std::vector<std::string> columns{"key"};
  std::map<std::string, std::vector<Json>> values;
  for (size_t i = 0; i < runs.size(); ++i) {
    columns.push_back(std::to_string(runs[i]));
    for (const auto& [key, value] : params_of(log, runs[i])) {
      values[key].resize(runs.size());
      values[key][i] = value;
    }
  }
  return differing(std::move(columns), values);
}

void print_comparison(std::ostream& out, const LogReader& log, const std::vector<std::string>& words,
                      TableFormat format, bool all) {
  if (format == TableFormat::csv) throw Error(ExitStatus::usage, "a comparison has no CSV form; use --json");
  const Comparison comparison(log, words);
  if (format == TableFormat::json) return print_json(out, comparison);
  const Table params = comparison.params();
  if (params.rows.empty())
    out << "the configurations are equal\n\n";
  else
    print_table(out, params, TableFormat::text), out << '\n';
  print_metrics(out, comparison, all);
}

}  // namespace wmtp
