// A study: members, which are experiments with changes, trained with the same seeds and compared with a control by one
// primary metric. Its file states all of that before anything runs (docs/studies.md).
//
//   [study]                            [[study.members]]
//   metric = "valid/loss"              name = "baseline"
//   better = "lower"                   experiment = "../baseline.toml"
//   seeds = [11, 12, 13]
//                                      [[study.members]]
//   [study.set]                        name = "random 60%"
//   train.steps = 500                  experiment = "../baseline.toml"
//                                      pipeline = {plugin = "random", keep = 0.6}
//   [study.budgets]                    tune.optimizer.lr = [1e-3, 2e-3]   # or {from = 1e-4, to = 1e-2}
//   seconds = ["shortest"]
//                                      [study.tuning]
//                                      seeds = [1, 2]
//                                      set.validation.files = ["others/*.py"]
//
// A metric may be of an evaluation of each run's final model: "eval/greedy", or of a group of its problems,
// "eval/greedy/degree 1". {seed} in a suite's path or in any changed value, also of conditions and of the tuning's
// "set", stands for the run's seed.
//
//   [study.evaluations.greedy]
//   suite = "graphs/{seed}/test.jsonl"
//   judge = "judge_paths.py"
//
// Under several conditions, such as shares of noise in the data, each member is trained under each of them and compared
// with the control under the same one. {condition} in a suite's path or in any changed value stands for its name.
//
//   [[study.conditions]]
//   name = "noise 50%"
//   data.files = ["mixed-50.txt"]
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/enum_names.hpp"

namespace wmtp {

/// A change of an experiment as --set takes it, with its place: "text.toml:12:1".
struct StudyChange {
  std::string text;
  std::string place;
};

/// A key that is tuned: its values as TOML, or a range in whose logarithm draws are uniform.
struct TunedKey {
  std::string key, place;
  std::vector<std::string> values;
  double from = 0, to = 0;  ///< 0: no range
};

/// A member under one condition.
struct StudyMember {
  std::string name;       ///< "rho-1", or "rho-1, noise 50%"
  std::string title;      ///< without the condition
  std::string condition;  ///< "": the study has none
  std::string place;
  std::filesystem::path experiment;
  std::vector<StudyChange> changes;  ///< the study's, then the condition's, then its own
  std::vector<TunedKey> tuned;
  size_t control = 0;  ///< the member that it is compared with: the study's control under the same condition
  /// Metrics that are another quantity in the control (quantity_of in report/compare.hpp): no difference is taken.
  std::vector<std::string> incomparable = {};
};

/// `end`: of each run.
enum class BudgetUnit { end, tokens, operations, seconds };
template <>
inline constexpr auto names_of<BudgetUnit> = std::array{"end", "tokens", "operations", "seconds"};
static_assert(names_of<BudgetUnit>.size() == size_t(BudgetUnit::seconds) + 1);

/// Where the members of a seed are compared.
struct StudyBudget {
  BudgetUnit unit = BudgetUnit::end;
  double amount = 0;  ///< 0: as much as the member of the seed that needs the least to its end ("shortest")
  bool operator==(const StudyBudget&) const = default;
};
/// "the end", "500,000 tokens", "the shortest run's seconds"
std::string title_of(const StudyBudget& budget);

struct StudyTuning {
  std::vector<int64_t> seeds;
  int64_t draws = 0;  ///< of each member with tuned keys; 0: all combinations
  std::vector<StudyChange> changes;
};

/// An evaluation of a run's final model, as `eval` does it: one answer to each problem.
struct StudyEvaluation {
  std::string name, place;
  std::string suite;  ///< path, with {seed} and {condition} as in changed values
  std::string judge;  ///< path of the user's program; "": the suite's tests or answers
  double temperature = 0;
  int64_t max_tokens = 512;
};

struct Study {
  std::filesystem::path file;
  std::string name;    ///< the file's, without .toml
  std::string metric;  ///< the primary one
  bool lower_is_better = true;
  std::vector<std::string> explored;  ///< further metrics
  std::vector<int64_t> seeds, pilot_seeds;
  /// Numbers of seeds, rising, after which the study ends if every comparison is decided.
  std::vector<int64_t> stops;
  std::vector<std::string> conditions{""};          ///< names, in the order of the file
  std::vector<StudyMember> members;                 ///< by condition, then in the order of the file
  std::vector<StudyBudget> budgets{StudyBudget()};  ///< the first is the end
  StudyTuning tuning;
  std::vector<StudyEvaluation> evaluations;

  std::vector<std::string> metrics() const;  ///< the primary one, then the explored ones
  /// Looks at the data: at the stops and at the end. Each decides at the level of 5% divided by their number.
  int64_t looks() const { return int64_t(stops.size()) + 1; }
  bool has_conditions() const { return !conditions.front().empty(); }
  bool is_control(size_t member) const { return members[member].control == member; }
  /// "baseline": the same under every condition.
  const std::string& control_title() const { return members[members.front().control].title; }
  /// How often members are compared with their controls by the primary metric.
  int64_t comparisons() const { return int64_t((members.size() - conditions.size()) * budgets.size()); }
};

/// The text with the seed in place of each {seed}, and the name of the condition in place of each {condition}.
std::string filled_in(std::string text, int64_t seed, const std::string& condition);

/// The name and the group of an evaluation's metric: "eval/greedy/degree 1"; "" for all problems. nullopt for any other
/// metric.
struct EvaluationMetric {
  std::string evaluation, group;
};
std::optional<EvaluationMetric> evaluation_metric(const std::string& metric);

}  // namespace wmtp
