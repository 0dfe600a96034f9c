// The training of a study: which of its runs are still to be trained, in which order, and when no more are needed. What
// starts the runs is given as a function, because the start of runs (launch/sweep_run.hpp) knows nothing of studies.
// Stopped at any point, the same call continues: runs that the log has are not trained again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "job/reusable_run.hpp"
#include "study/results.hpp"

namespace wmtp {

/// How runs ended, in their order.
struct TrainedRuns {
  int exit_code = 0;  ///< of the first that failed, except those that diverged, which are results
  bool stop_requested = false;
  std::vector<RunEnd> ends;
};

/// What a study needs of the program around it.
struct StudyRunner {
  std::filesystem::path database;
  std::vector<std::filesystem::path> plugin_folders;  ///< of the models that are evaluated
  /// Trains those of the runs that the log lacks.
  std::function<TrainedRuns(const std::vector<StudyRun>& runs)> train;
  std::function<std::string(const StudyRun& run)> data_hash;
  std::function<double(const StudyRun& run)> operations_per_step;
};

/// Thrown where a request to stop ended the runs.
struct StudyInterrupted {};

/// Whether the results lack a run that decides the study.
bool lacks_runs(const Study& study, const StudyResults& results);

/// Chooses the values of tuned keys, and trains what neither `results` nor the log has, until a look at the results
/// decides every comparison. Adds to `results` what the choices and the runs came to. Returns the exit code of the
/// first run that failed or could not be evaluated; throws StudyInterrupted. Error(data) if a member has no choice of
/// which all runs have the primary metric.
int train_study(const Study& study, const StudyRunner& runner, StudyResults& results);

/// Trains and evaluates the runs of the pilot, which a plan reads from the log. Returns and throws as above.
/// Error(usage) if the study states no seeds of one.
int train_pilot(const Study& study, const StudyRunner& runner);

}  // namespace wmtp
