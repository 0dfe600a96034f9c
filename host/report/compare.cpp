#include "report/compare.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "log/records.hpp"
#include "report/student_t.hpp"

namespace wmtp {
namespace {

/// Differences below this share of the values come from the order of additions.
constexpr double rounding = 1e-12;

struct LoggedValues {
  int64_t id = 0;
  std::map<std::string, std::string> params;
  /// The last value of each metric; speed and mfu over all steps; and the lowest validation loss of head 1, or of an
  /// objective.
  std::map<std::string, double> metrics;
};

/// A row for each key whose values differ, and for those of `always`.
Table differing(std::vector<std::string> columns, const std::map<std::string, std::vector<Json>>& values_of_key,
                const std::set<std::string>& always = {}) {
  Table table{std::move(columns), {}, false};
  for (const auto& [key, values] : values_of_key) {
    const bool differs = std::ranges::adjacent_find(values, std::not_equal_to()) != values.end();
    if (!differs && !always.contains(key)) continue;
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
  Comparison(const LogReader& log, const std::vector<std::string>& words, const std::string& baseline) : log_(log) {
    for (const std::string& word : words)
      for (const std::string& name : resolve_run_names(log, word)) sides_.push_back(side_of(name));
    if (!baseline.empty()) put_first(baseline);
    if (sides_.size() < 2) throw Error(ExitStatus::usage, "found fewer than two runs to compare");
  }

  /// Keys whose values differ between or within sides; the seed only if no side has several.
  Table params() const {
    std::map<std::string, std::vector<Json>> values;
    each([&](const LoggedValues& run) {
      for (const auto& [key, value] : run.params) values[key];
    });
    if (has_seeds()) values.erase("seed");
    std::set<std::string> mixed;
    for (const Side& side : sides_) mixed.merge(mixed_keys(side));
    for (auto& [key, row] : values)
      for (const Side& side : sides_) row.push_back(values_of(side, key));
    return differing(columns("key"), values, mixed);
  }

  /// Keys besides the seed in which the runs of a side differ: they are no repetitions of one experiment.
  std::set<std::string> mixed_keys(const Side& side) const {
    std::map<std::string, std::set<std::string>> values;
    for (const auto& [seed, run] : side.runs)
      for (const auto& [key, value] : run.params) values[key].insert(value);
    std::set<std::string> mixed;
    for (const auto& [key, found] : values)
      if (found.size() > 1 && key != "seed") mixed.insert(key);
    return mixed;
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

  /// Difference from the first side, over seeds that both have; of the means, if they share fewer than two; between two
  /// single runs regardless of their seeds. None if the metric does not measure the same in both.
  MeanAndError difference(const Side& side, const std::string& name) const {
    const Side& first = sides_.front();
    if (has_unpaired_seeds(side))
      return is_incomparable(side, name) ? MeanAndError() : welch_difference(figure(side, name), figure(first, name));
    std::vector<double> values;
    const auto add = [&](const LoggedValues& here, const LoggedValues& there) {
      const auto a = here.metrics.find(name), b = there.metrics.find(name);
      if (a == here.metrics.end() || b == there.metrics.end() || !is_same_quantity(name, here, there)) return;
      const double difference = a->second - b->second;
      const double size = std::max(std::fabs(a->second), std::fabs(b->second));
      values.push_back(std::fabs(difference) <= rounding * size ? 0 : difference);
    };
    if (side.runs.size() == 1 && first.runs.size() == 1) {
      add(side.runs.begin()->second, first.runs.begin()->second);
    } else {
      for (const auto& [seed, run] : side.runs)
        if (const auto same = first.runs.find(seed); same != first.runs.end()) add(run, same->second);
    }
    return mean_and_error(values);
  }

  /// Whether this side and the first have several seeds, but fewer than two in common.
  bool has_unpaired_seeds(const Side& side) const {
    const auto& first = sides_.front().runs;
    const auto pairs = std::ranges::count_if(side.runs, [&](const auto& run) { return first.contains(run.first); });
    return side.runs.size() > 1 && first.size() > 1 && pairs < 2;
  }

  /// Whether some difference of `name` is not taken.
  bool is_incomparable(const std::string& name) const {
    return std::ranges::any_of(sides_, [&](const Side& side) { return is_incomparable(side, name); });
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
  void put_first(const std::string& baseline) {
    const std::vector<std::string> names = resolve_run_names(log_, baseline);
    if (names.size() > 1)
      throw Error(ExitStatus::usage,
                  "--baseline " + baseline + ": found a sweep of " + join_names(names) + ", wanted one of them");
    const auto same = [&](const Side& side) { return side.word == names.front(); };
    auto found = std::find_if(sides_.begin(), sides_.end(), same);
    if (found == sides_.end()) found = sides_.insert(sides_.end(), side_of(names.front()));
    std::rotate(sides_.begin(), found, found + 1);
  }

  static size_t place_of(const std::string& name) {
    constexpr std::array first{"valid/", "train/"}, last{"perf/", "time/"};
    for (size_t i = 0; i < first.size(); ++i)
      if (name.starts_with(first[i])) return i;
    for (size_t i = 0; i < last.size(); ++i)
      if (name.starts_with(last[i])) return first.size() + 1 + i;
    return first.size();
  }

  bool is_incomparable(const Side& side, const std::string& name) const {
    return std::ranges::any_of(side.runs, [&](const auto& run) {
      return run.second.metrics.contains(name) &&
             !is_same_quantity(name, run.second, sides_.front().runs.begin()->second);
    });
  }

  static bool is_same_quantity(const std::string& name, const LoggedValues& a, const LoggedValues& b) {
    return quantity_of(name, a.params) == quantity_of(name, b.params);
  }

  Side side_of(const std::string& word) const {
    Side side{word, {}};
    const Table seeds =
        log_.query("SELECT seed, max(id) FROM runs WHERE name = ?1 AND status = 'finished' GROUP BY seed", {word});
    for (const auto& row : seeds.rows) side.runs[row[0].get<int64_t>()] = values(row[1].get<int64_t>());
    if (!side.runs.empty()) return side;
    const int64_t id = log_.resolve_run(word);
    const Row run = log_.query("SELECT seed, status, steps FROM v_runs WHERE id = ?1", {id}).rows.at(0);
    side.runs[run[0].get<int64_t>()] = values(id);
    if (const std::string status = run[1]; status != "finished")
      log_warning("run " + std::to_string(id) + " is " + status +
                  (run[2].is_null() ? "" : ", at step " + run[2].dump()) +
                  ": its values are compared with the last ones of the others");
    return side;
  }

  LoggedValues values(int64_t id) const {
    LoggedValues run{id, log_.params(id), {}};
    log_.each_row(
        "SELECT name, value, kind FROM v_latest WHERE run_id = ?1 "
        "AND name NOT IN ('perf/tokens_per_second', 'perf/mfu', 'perf/run_tokens', 'perf/run_seconds') "
        "UNION ALL "
        "SELECT iif(best_valid_head_1 IS NULL, 'valid/loss, lowest', 'valid/ce_head_1, lowest'), "
        "coalesce(best_valid_head_1, best_valid_loss), NULL FROM v_runs WHERE id = ?1 UNION ALL "
        "SELECT 'perf/tokens_per_second', tokens_per_second, NULL FROM v_runs WHERE id = ?1 "
        "UNION ALL SELECT 'perf/mfu', mfu, NULL FROM v_runs WHERE id = ?1",
        {id}, [&](const Statement& row) {
          if (!row.null(1) || !row.null(2)) run.metrics[row.text(0)] = logged_number(row, 1, 2);
        });
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

  template <class OnRun>
  void each(OnRun on_run) const {
    for (const Side& side : sides_)
      for (const auto& [seed, run] : side.runs) on_run(run);
  }

  const LogReader& log_;
  std::vector<Side> sides_;
};

/// What a reader of the table would have to look up; docs/metrics.md explains every metric.
std::string gloss_of(const std::string& name) {
  static const std::map<std::string, std::string> glosses{
      {"valid/loss", "mean over heads"},
      {"valid/ce_head_1", "next token"},
      {"valid/tokens_per_pass", "with accepted drafts"},
      {"valid/tokens_lh", "share: loss rose"},
      {"valid/tokens_hl", "share: loss fell"},
      {"valid/tokens_hh", "share: loss still high"},
      {"valid/tokens_ll", "share: loss still low"},
      {"train/loss", "with token weights"},
      {"train/ce", "without token weights"},
      {"train/lr", "learning rate"},
      {"train/tokens", "tokens trained"},
      {"train/grad_norm", "before clipping"},
      {"train/clip_coef", "factor of clipping"},
      {"guard/skipped", "1: step skipped"},
      {"weights/ess", "effective share of tokens"},
  };
  const auto found = glosses.find(name);
  return found == glosses.end() ? "" : " (" + found->second + ")";
}

/// A line for two words that mean the same runs, or runs of one configuration among others.
void print_repetitions(std::ostream& out, const Comparison& comparison, const Table& params) {
  const std::vector<Side>& sides = comparison.sides();
  const auto ids = [](const Side& side) {
    std::vector<int64_t> found;
    for (const auto& [seed, run] : side.runs) found.push_back(run.id);
    return found;
  };
  for (size_t b = 1; b < sides.size(); ++b)
    for (size_t a = 0; a < b; ++a) {
      const bool is_equal = std::ranges::all_of(params.rows, [&](const Row& row) { return row[1 + a] == row[1 + b]; });
      if (ids(sides[a]) == ids(sides[b]))
        out << sides[a].word << " and " << sides[b].word << " are the same "
            << (sides[a].runs.size() > 1 ? "runs" : "run") << '\n';
      else if (is_equal && !params.rows.empty())
        out << Comparison::title(sides[a]) << " and " << Comparison::title(sides[b])
            << " have the same configuration\n";
    }
}

/// Whether a key says on which data, for how long or in which precision a run trains: what changes its numbers whatever
/// its method is.
bool is_of_all_methods(const std::string& key) {
  constexpr std::array keys{"parallel.precision",     "train.steps",           "train.epochs",
                            "train.batch_size",       "train.sequence_length", "train.gradient_accumulation",
                            "train.global_batch_size"};
  return key.starts_with("data.") || std::ranges::find(keys, key) != keys.end();
}

/// A name means its newest run, also if that was another experiment with --set.
void warn_of_other_differences(std::ostream& out, const Table& params) {
  std::vector<std::string> keys;
  for (const Row& row : params.rows)
    if (const auto key = row[0].get<std::string>(); is_of_all_methods(key)) keys.push_back(key);
  if (!keys.empty())
    out << "warning: the runs also differ in " << join_names(keys)
        << ", which changes the numbers of any method; a name means its newest run: `wmtp-host runs list` shows "
           "others\n";
}

/// A name means its newest run of each seed, also if some of them were another experiment.
void warn_of_mixed_sides(std::ostream& out, const Comparison& comparison) {
  for (const Side& side : comparison.sides())
    if (const auto mixed = comparison.mixed_keys(side); !mixed.empty())
      out << "warning: the runs of " << Comparison::title(side) << " differ in "
          << join_names({mixed.begin(), mixed.end()})
          << ", so their mean and ± are over different experiments; name runs by their numbers, or give each "
             "experiment a name of its own\n";
}

/// What ±, the differences and their intervals are.
void explain_figures(std::ostream& out, const Comparison& comparison) {
  out << "last values; differences from " << Comparison::title(comparison.sides().front());
  if (!comparison.has_seeds()) {
    out << "; one seed each, so that noise between seeds cannot be told from an effect\n";
    return;
  }
  std::vector<std::string> unpaired;
  for (const Side& side : comparison.sides())
    if (comparison.has_unpaired_seeds(side)) unpaired.push_back(side.word);
  out << ", seed by seed; ± is the standard error of the mean over the seeds\n"
      << "[a, b] is the 95% interval of a difference, by Student's t over the paired seeds";
  if (!unpaired.empty())
    out << " (of " << join_names(unpaired) << ", with fewer than two in common, by Welch's t over all)";
  out << ";\n\"not distinguishable\": it contains 0\n";
}

/// "-0.3 [-0.5, -0.1]", "+0.1 ± 0.2, not distinguishable", or as with_error().
std::string with_verdict(const MeanAndError& difference) {
  const auto interval = interval_95(difference);
  if (!interval || difference.error == 0 || !std::isfinite(difference.mean)) return with_error(difference, true);
  const auto& [low, high] = *interval;
  if (low <= 0 && high >= 0) return with_error(difference, true) + ", not distinguishable";
  return printed("%+.4g [%+.3g, %+.3g]", difference.mean, low, high);
}

size_t width_of(const Table& table, size_t column) {
  size_t widest = shown_length(table.columns[column]);
  for (const Row& row : table.rows) widest = std::max(widest, shown_length(shown(row[column])));
  return widest + 2;
}

/// Splits a table into several that are at most `columns` wide, if a side with its difference is. Each begins with the
/// names of the metrics.
void print_in_parts(std::ostream& out, const Table& table, size_t columns) {
  for (size_t next = 1; next < table.columns.size();) {
    const bool is_first = next == 1;
    Table part{{table.columns[0]}, {}, false};
    for (const Row& row : table.rows) {
      const auto name = row[0].get<std::string>();
      part.rows.push_back({is_first ? name + gloss_of(name) : name});
    }
    size_t wide = width_of(part, 0);
    while (next < table.columns.size()) {
      const size_t end = next + (next == 1 ? 1 : 2);  // the first side has no difference
      for (size_t i = next; i < end; ++i) wide += width_of(table, i);
      if (part.columns.size() > 1 && wide > columns + 2) break;
      for (; next < end; ++next) {
        part.columns.push_back(table.columns[next]);
        for (size_t row = 0; row < table.rows.size(); ++row) part.rows[row].push_back(table.rows[row][next]);
      }
    }
    if (!is_first) out << '\n';
    print_text_table(out, part, 0);
  }
}

/// The metrics of every side, with the differences of later sides from the first.
void print_metrics(std::ostream& out, const Comparison& comparison, const ComparisonRequest& request) {
  Table table{{"metric"}, {}, false};
  for (const Side& side : comparison.sides()) {
    table.columns.push_back(Comparison::title(side));
    if (table.columns.size() > 2) table.columns.push_back("difference");
  }
  std::vector<std::string> incomparable;
  bool hides = false;
  for (const std::string& name : comparison.metric_names()) {
    if (!request.all && (name.starts_with("time/") || name.starts_with("perf/"))) {
      hides = true;
      continue;
    }
    if (comparison.is_incomparable(name)) incomparable.push_back(name);
    std::vector<Json> row{name};
    for (const Side& side : comparison.sides()) {
      row.push_back(with_error(comparison.figure(side, name)));
      if (row.size() > 2) row.push_back(with_verdict(comparison.difference(side, name)));
    }
    table.rows.push_back(std::move(row));
  }
  explain_figures(out, comparison);
  print_in_parts(out, table, request.columns);
  if (!incomparable.empty())
    out << "\nno difference of " << join_names(incomparable) << ": " << why_no_difference << '\n';
  if (hides) out << (incomparable.empty() ? "\n" : "") << "time/ and perf/ are shown with --all\n";
}

OrderedJson to_json_value(const MeanAndError& of) {
  if (of.count == 0) return nullptr;
  return {
      {"mean", of.mean}, {"standard_error", of.count > 1 ? OrderedJson(of.error) : OrderedJson()}, {"count", of.count}};
}

OrderedJson difference_to_json(const MeanAndError& difference) {
  OrderedJson json = to_json_value(difference);
  if (json.is_null()) return json;
  const auto interval = interval_95(difference);
  json["interval_95"] = interval ? OrderedJson({interval->first, interval->second}) : OrderedJson();
  return json;
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
      differences.push_back(difference_to_json(comparison.difference(side, name)));
    }
    all["metrics"][name] = {{"last", figures}, {"difference_from_first", differences}};
  }
  out << dumped(all, 1) << '\n';
}

}  // namespace

const char* const why_no_difference = "the weights or the heads differ; compare valid/ce_head_1";

bool has_quantities(std::string_view metric) {
  if (metric == "train/loss" || metric == "train/ce" || metric == "valid/loss") return true;
  constexpr std::string_view of_head = "_head_";
  const size_t at = metric.rfind(of_head);
  return at != metric.npos && metric.substr(at + of_head.size()) != "1";
}

std::string quantity_of(const std::string& metric, const std::map<std::string, std::string>& params) {
  const std::string name = metric.substr(0, metric.find(','));  // "valid/loss, lowest"
  if (!has_quantities(name)) return "";
  if (name.find("_head_") != name.npos) {  // what a later head predicts
    const auto offsets = params.find("model.future_offsets");
    return offsets == params.end() || offsets->second == "[]" ? "" : offsets->second;
  }
  // A training loss contains the weights; a mean over heads depends on their number and on what they predict.
  std::string quantity;
  for (const auto& [key, value] : params) {
    const bool is_weight = key.starts_with("pipeline.") || key == "train.normalize" || key == "train.head_weights";
    const bool is_of_heads = key == "model.future_tokens" || key == "model.future_offsets";
    if (is_of_heads || (name == "train/loss" && is_weight)) quantity += key + "=" + value + "\n";
  }
  return quantity;
}

std::vector<std::string> incomparable(const LogReader& log, const std::vector<int64_t>& runs,
                                      const std::vector<std::string>& metrics) {
  std::vector<std::map<std::string, std::string>> params;
  for (const int64_t run : runs) params.push_back(log.params(run));
  std::vector<std::string> found;
  for (const std::string& metric : metrics) {
    std::set<std::string> quantities;
    for (const auto& of_run : params) quantities.insert(quantity_of(metric, of_run));
    if (quantities.size() > 1) found.push_back(metric);
  }
  return found;
}

MeanAndError mean_and_error(const std::vector<double>& values) {
  MeanAndError of;
  of.count = int64_t(values.size());
  if (values.empty()) return of;
  for (const double value : values) of.mean += value / double(of.count);
  double squares = 0;
  for (const double value : values) squares += (value - of.mean) * (value - of.mean);
  if (of.count > 1) of.error = std::sqrt(squares / double(of.count - 1) / double(of.count));
  if (of.error <= rounding * std::fabs(of.mean)) of.error = 0;
  of.freedom = double(of.count - 1);
  return of;
}

MeanAndError welch_difference(const MeanAndError& a, const MeanAndError& b) {
  if (a.count < 2 || b.count < 2) return {};
  MeanAndError of{a.mean - b.mean, std::hypot(a.error, b.error), a.count + b.count, std::min(a.freedom, b.freedom)};
  if (std::fabs(of.mean) <= rounding * std::max(std::fabs(a.mean), std::fabs(b.mean))) of.mean = 0;
  const double x = a.error * a.error, y = b.error * b.error;
  if (of.error > 0) of.freedom = (x + y) * (x + y) / (x * x / a.freedom + y * y / b.freedom);
  return of;
}

std::optional<std::pair<double, double>> interval_95(const MeanAndError& of) {
  if (of.freedom == 0) return std::nullopt;
  const double reach = two_sided_95_t(of.freedom) * of.error;
  return std::pair(of.mean - reach, of.mean + reach);
}

std::string with_error(const MeanAndError& of, bool signed_number) {
  if (of.count == 0) return "-";
  if (const char* name = non_finite_name(of.mean)) return name;
  const std::string number = signed_number && of.mean != 0 ? printed("%+.4g", of.mean) : shown(of.mean);
  return of.count == 1 ? number : number + printed(" ± %.2g", of.error);
}

Table differing_params(const LogReader& log, const std::vector<int64_t>& runs) {
  std::vector<std::string> columns{"key"};
  std::map<std::string, std::vector<Json>> values;
  for (size_t i = 0; i < runs.size(); ++i) {
    columns.push_back(std::to_string(runs[i]));
    for (const auto& [key, value] : log.params(runs[i])) {
      values[key].resize(runs.size());
      values[key][i] = value;
    }
  }
  return differing(std::move(columns), values);
}

void print_comparison(std::ostream& out, const LogReader& log, const ComparisonRequest& request) {
  const Comparison comparison(log, request.words, request.baseline);
  if (request.as_json) return print_json(out, comparison);
  const Table params = comparison.params();
  if (params.rows.empty())
    out << "the configurations are equal\n\n";
  else
    print_table(out, params, TableFormat::text), out << '\n';
  print_repetitions(out, comparison, params);
  warn_of_mixed_sides(out, comparison);
  warn_of_other_differences(out, params);
  print_metrics(out, comparison, request);
}

}  // namespace wmtp
