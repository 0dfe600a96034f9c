// What the runs of a study came to: curves by member and seed, from the log, or from JSON that other machines wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "log/log_reader.hpp"
#include "study/members.hpp"

namespace wmtp {

/// A run at its validations.
struct StudyResult {
  std::string member;
  int64_t seed = 0;
  bool diverged = false;  ///< stopped by the numeric guard
  TunedChoice choice;     ///< of the member's tuned keys
  std::string machine, device;
  std::string data;  ///< hash of what the run read; "": unknown
  double operations_per_step = 0;
  std::vector<int64_t> steps;
  std::vector<double> tokens, seconds;  ///< trained until the end of that step
  /// By name; nullopt where the metric has no finite value.
  std::map<std::string, std::vector<std::optional<double>>> metrics;
};

/// What a choice of a member's tuned keys came to.
struct TriedChoice {
  std::string member;
  TunedChoice choice;
  std::vector<std::optional<double>> values;  ///< the primary metric at the end, by seed of the tuning
};

struct StudyResults {
  std::string hash;  ///< of the definition
  Json definition;
  Json inputs;  ///< as of study_inputs(); null: unknown
  Json plan;    ///< as of begin_study(); null: unknown
  std::vector<TriedChoice> tried;
  std::vector<StudyResult> runs;
};

/// The curves of a run, at the steps of the first of `metrics`; at its end only if that is of an evaluation.
/// Evaluations have no values yet (study/evaluations.hpp). `found.operations_per_step` stays.
void read_curves(const LogReader& log, int64_t run, const std::vector<std::string>& metrics, StudyResult& found);

/// "no run of the log has the metric valid/los; did you mean valid/loss?", for each of `metrics` of which that holds.
/// Empty for a log without metrics.
std::vector<std::string> unknown_metrics(const LogReader& log, const std::vector<std::string>& metrics);

/// The run of a member with a seed, or null.
const StudyResult* find_result(const std::vector<StudyResult>& runs, const std::string& member, int64_t seed);

OrderedJson to_json(const StudyResult& result);
OrderedJson to_json(const TriedChoice& tried);

/// Reads what `study --json` wrote, and joins it to `results`. Error(data) for anything else, for results of another
/// definition or other inputs, and for a member and seed that are there already, or with another choice of tuned keys.
void add_results(const std::filesystem::path& file, StudyResults& results);

/// A metric where a run has spent this budget, linear between two validations; at the end its last value. nullopt if
/// the run ended before, diverged, or has its first value later.
std::optional<double> value_at(const StudyResult& result, const std::string& metric, BudgetUnit unit, double amount);

/// The tokens, operations or seconds of a run's validations. [unit is not `end`]
std::vector<double> spent(const StudyResult& result, BudgetUnit unit);

}  // namespace wmtp
