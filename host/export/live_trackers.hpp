// The trackers of [log]: while a run trains, `wmtp-host export` follows it as a child of rank 0, one for wandb and one
// for trackio; MLflow gets the run when it has ended. A tracker that fails is a warning, and never the run's failure:
// the log has everything, and the same export sends later what is missing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.hpp"
#include "process/child_process.hpp"

namespace wmtp {

/// A warning for each tracker of `config` that the user's Python (process/python_program.hpp) lacks, before a run
/// trains for days. Starts that Python if there is a tracker.
std::vector<std::string> missing_trackers(const LogConfig& config);

class LiveTrackers {
 public:
  /// Starts the children that follow the run of this number. finish() reports those that could not be started.
  LiveTrackers(const LogConfig& config, std::filesystem::path database, int64_t run_id);

  /// What became of each tracker.
  struct Outcome {
    std::string name;
    bool failed = false;
    std::string message;  ///< where the run is to be seen, or why it is not
  };
  /// [after the run's row has ended] Waits until the trackers have everything, at most two minutes each.
  std::vector<Outcome> finish();

 private:
  struct Tracker {
    std::string name;
    std::optional<ChildProcess> child;  ///< none if it could not be started
    std::string failure;
  };
  void start(const std::string& name, const std::vector<std::string>& options);

  std::filesystem::path database_;
  int64_t run_id_;
  std::string mlflow_;
  std::vector<Tracker> trackers_;
};

}  // namespace wmtp
