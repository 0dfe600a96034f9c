#include "study/results.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/input_file.hpp"

namespace wmtp {
namespace {

using Curve = std::vector<std::pair<int64_t, std::optional<double>>>;

Curve curve_of(const LogReader& log, int64_t run, const std::string& metric) {
  Curve curve;
  for (const Row& row :
       log.query("SELECT step, value FROM v_curves WHERE run_id = ?1 AND name = ?2 ORDER BY step", {run, metric}).rows)
    curve.emplace_back(row[0].get<int64_t>(), row[1].is_number() ? std::optional(row[1].get<double>()) : std::nullopt);
  return curve;
}

/// A total that begins with 0, at these steps: linear between those that were logged.
std::vector<double> total_at(const Curve& total, const std::vector<int64_t>& steps) {
  std::vector<double> found;
  for (const int64_t step : steps) {
    const auto after = std::ranges::find_if(total, [&](const auto& point) { return point.first >= step; });
    if (after == total.end()) {
      found.push_back(total.empty() ? 0 : total.back().second.value_or(0));
      continue;
    }
    const auto [begin, low] = after == total.begin() ? std::pair<int64_t, std::optional<double>>(0, 0) : *(after - 1);
    const double share = after->first == begin ? 1 : double(step - begin) / double(after->first - begin);
    found.push_back(std::lerp(low.value_or(0), after->second.value_or(0), share));
  }
  return found;
}

/// More than a study of thousands of runs takes.
constexpr int64_t max_results_bytes = int64_t{256} << 20;

StudyResult result_from(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  StudyResult found;
  found.member = fields.text("member");
  found.seed = fields.integer("seed");
  const std::string status = fields.text("status");
  found.diverged = status == "diverged";
  if (!found.diverged && status != "finished") fields.refuse("status is " + printable(status));
  for (const Json& setting : fields.array("choice")) found.choice.push_back(setting.get<std::string>());
  found.machine = fields.text("machine");
  found.device = fields.text("device");
  if (fields.has("data")) found.data = fields.text("data");
  found.operations_per_step = fields.value("operations_per_step").get<double>();
  found.steps = fields.integers("steps");
  found.tokens = fields.numbers("tokens");
  found.seconds = fields.numbers("seconds");
  const auto check = [&](size_t values, const std::string& name) {
    if (values != found.steps.size())
      fields.refuse(name + " has " + std::to_string(values) + " values, steps " + std::to_string(found.steps.size()));
  };
  check(found.tokens.size(), "tokens");
  check(found.seconds.size(), "seconds");
  if (!std::ranges::is_sorted(found.steps)) fields.refuse("steps do not rise");
  for (const auto& [name, values] : fields.object("metrics").items()) {
    check(values.size(), printable(name));
    found.metrics[name] = values.get<std::vector<std::optional<double>>>();
  }
  fields.finish();
  return found;
}

TriedChoice tried_from(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  TriedChoice found;
  found.member = fields.text("member");
  for (const Json& setting : fields.array("choice")) found.choice.push_back(setting.get<std::string>());
  found.values = fields.array("values").get<std::vector<std::optional<double>>>();
  fields.finish();
  return found;
}

/// The definition, the inputs and the plan of a file, which are the first's, or have to agree with them.
void add_head(const Json& json, const std::string& where, StudyResults& results) {
  const Json& definition = json.at("definition");
  const std::string hash = study_hash(definition);
  const Json inputs = json.value("inputs", Json()), plan = json.value("plan", Json());
  if (results.runs.empty()) {
    results.hash = hash;
    results.definition = definition;
    results.inputs = inputs;
    results.plan = plan;
    return;
  }
  const auto refuse_other = [&](const std::string& what, const std::vector<std::string>& changes) {
    throw Error(ExitStatus::data,
                where + ": these are results of " + what + " than in the first file: " + join_names(changes));
  };
  if (results.hash != hash) refuse_other("another study", definition_changes(results.definition, definition));
  if (const auto changes = input_changes(results.inputs, inputs); !changes.empty())
    refuse_other("other data or models", changes);
  if (!plan.is_object() || !plan.contains("changes")) return;
  Json& all = results.plan.is_object() ? results.plan["changes"] : (results.plan = plan)["changes"];
  for (const Json& change : plan["changes"])
    if (std::ranges::find(all, change) == all.end()) all.push_back(change);
}

void add_result(StudyResult found, const std::string& where, std::vector<StudyResult>& runs) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ExitStatus::data, where + ": member " + printable(found.member) + what);
  };
  if (find_result(runs, found.member, found.seed))
    refuse(" with seed " + std::to_string(found.seed) + " is there already; a member and a seed count once");
  const auto other = std::ranges::find(runs, found.member, &StudyResult::member);
  if (other != runs.end() && other->choice != found.choice)
    refuse(": its runs have different values of the tuned keys: " + join_names(other->choice) + "; " +
           join_names(found.choice) + "; tune once, and pass on the results with --known");
  runs.push_back(std::move(found));
}

std::string without_number(const std::string& name) { return name.substr(0, name.find_last_not_of("0123456789") + 1); }

}  // namespace

void read_curves(const LogReader& log, int64_t run, const std::vector<std::string>& metrics, StudyResult& found) {
  const Row row = log.query("SELECT host, device FROM runs WHERE id = ?1", {run}).rows.at(0);
  found.machine = row[0];
  found.device = row[1];
  const bool at_end = evaluation_metric(metrics.front()).has_value();
  for (const auto& [step, value] : curve_of(log, run, at_end ? "train/tokens" : metrics.front()))
    found.steps.push_back(step);
  if (at_end && found.steps.size() > 1) found.steps = {found.steps.back()};
  found.tokens = total_at(curve_of(log, run, "train/tokens"), found.steps);
  found.seconds = total_at(curve_of(log, run, "perf/run_seconds"), found.steps);
  for (const std::string& metric : metrics) {
    const Curve curve = curve_of(log, run, metric);
    for (const int64_t step : found.steps) {
      const auto at = std::ranges::find(curve, step, [](const auto& point) { return point.first; });
      found.metrics[metric].push_back(at == curve.end() ? std::nullopt : at->second);
    }
  }
}

std::vector<std::string> unknown_metrics(const LogReader& log, const std::vector<std::string>& metrics) {
  std::vector<std::string> known, found;
  for (const Row& row : log.query("SELECT name FROM metric_names").rows) known.push_back(row[0]);
  // Before the first run, mistakes for the usual ones. A plugin may log any other one, and there are heads 2 and on.
  const bool is_first = known.empty();
  if (is_first) known = {"train/loss", "valid/loss", "valid/exact_match", "valid/ce_head_1", "valid/accuracy_head_1"};
  for (const std::string& metric : metrics) {
    if (std::ranges::find(known, metric) != known.end() || evaluation_metric(metric)) continue;
    const std::string nearest = nearest_name(metric, known);
    if (is_first && (nearest.empty() || without_number(nearest) == without_number(metric))) continue;
    found.push_back("no run of the log has the metric " + printable(metric) +
                    (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }
  return found;
}

const StudyResult* find_result(const std::vector<StudyResult>& runs, const std::string& member, int64_t seed) {
  const auto found =
      std::ranges::find_if(runs, [&](const StudyResult& one) { return one.seed == seed && one.member == member; });
  return found == runs.end() ? nullptr : &*found;
}

OrderedJson to_json(const TriedChoice& tried) {
  return {{"member", tried.member}, {"choice", tried.choice}, {"values", Json(tried.values)}};
}

OrderedJson to_json(const StudyResult& result) {
  OrderedJson metrics = OrderedJson::object();
  for (const auto& [name, values] : result.metrics) metrics[name] = Json(values);
  return {{"member", result.member},
          {"seed", result.seed},
          {"status", result.diverged ? "diverged" : "finished"},
          {"choice", result.choice},
          {"machine", result.machine},
          {"device", result.device},
          {"data", result.data},
          {"operations_per_step", result.operations_per_step},
          {"steps", result.steps},
          {"tokens", result.tokens},
          {"seconds", result.seconds},
          {"metrics", metrics}};
}

void add_results(const std::filesystem::path& file, StudyResults& results) {
  const std::string where = file.string();
  const Json json = parse_strict_json(read_small_file(file, max_results_bytes), where);
  try {
    if (!json.is_object() || !json.contains("results"))
      throw Error(ExitStatus::data, where + ": wanted results as `wmtp-host study FILE --json` writes them");
    add_head(json, where, results);
    size_t number = 0;
    for (const Json& one : json.value("tried", Json::array())) {
      TriedChoice found = tried_from(one, where + ": tried[" + std::to_string(number++) + "]");
      const auto is_same = [&](const TriedChoice& known) {
        return known.member == found.member && known.choice == found.choice;
      };
      if (std::ranges::none_of(results.tried, is_same)) results.tried.push_back(std::move(found));
    }
    number = 0;
    for (const Json& one : json.at("results"))
      add_result(result_from(one, where + ": results[" + std::to_string(number++) + "]"), where, results.runs);
  } catch (const Json::exception& error) {
    throw Error(ExitStatus::data,
                where + ": wanted results as `wmtp-host study FILE --json` writes them: " + error.what());
  }
}

std::vector<double> spent(const StudyResult& result, BudgetUnit unit) {
  if (unit == BudgetUnit::tokens) return result.tokens;
  if (unit == BudgetUnit::seconds) return result.seconds;
  std::vector<double> operations;
  for (const int64_t step : result.steps) operations.push_back(double(step) * result.operations_per_step);
  return operations;
}

std::optional<double> value_at(const StudyResult& result, const std::string& metric, BudgetUnit unit, double amount) {
  const auto found = result.metrics.find(metric);
  if (result.diverged || found == result.metrics.end() || found->second.empty()) return std::nullopt;
  const auto& values = found->second;
  if (unit == BudgetUnit::end) return values.back();
  const std::vector<double> until = spent(result, unit);
  const auto after = size_t(std::ranges::lower_bound(until, amount) - until.begin());
  if (after == until.size()) return std::nullopt;
  if (until[after] == amount) return values[after];
  if (after == 0) return std::nullopt;  // nothing is known before the first value
  const auto &low = values[after - 1], &high = values[after];
  if (!low || !high) return std::nullopt;
  return std::lerp(*low, *high, (amount - until[after - 1]) / (until[after] - until[after - 1]));
}

}  // namespace wmtp
