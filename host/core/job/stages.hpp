// The stages of an experiment: which of them run, in which order, which weights each run receives, and from which
// checkpoint it resumes.
//
// The launcher decides it from the log before anything runs, and then starts ranks for each run. Under a foreign launcher
// rank 0 decides and sends the plan to the other ranks, which carry out all runs themselves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "core/experiment/experiment.hpp"
#include "core/job/identity.hpp"

namespace wmtp {

struct ResumePoint {
  int64_t run_id = 0;            ///< 0: none, the run starts at step 0
  std::filesystem::path folder;  ///< an intact step-NNNNNN/
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ResumePoint, run_id, folder)

/// [rank 0, or the launcher] The newest unfinished run of this configuration that has an intact checkpoint, or nothing.
/// Renames damaged checkpoints, with a warning for each. A run from which a finished one was resumed counts as finished.
/// Error(data) when the run is still running.
std::optional<ResumePoint> resume_point(const std::string& config_hash, const std::filesystem::path& database);

/// Whether the log contains an unfinished run of this configuration, with or without a checkpoint.
bool was_begun(const std::string& config_hash, const std::filesystem::path& database);

/// Hashes of experiments and of the stages below them, each computed once, since that reads their data.
class ExperimentHashes {
 public:
  ExperimentHashes(const Catalog& catalog, std::filesystem::path database)
      : catalog_(catalog), database_(std::move(database)) {}
  virtual ~ExperimentHashes() = default;
  const std::filesystem::path& database() const { return database_; }
  /// Of an experiment that outlives this object. Errors as experiment_hash.
  virtual const std::string& of(const Experiment& experiment);

 private:
  const Catalog& catalog_;
  std::filesystem::path database_;
  std::map<const Experiment*, std::string> known_;
};

/// The run of a stage, or of the experiment itself.
struct PlannedRun {
  std::vector<std::string> path;  ///< tables that lead from the experiment to the stage; empty for the experiment
  std::string tables;             ///< that name the stage: "reference", or "model and value"
  std::string file;               ///< its name, for messages
  std::string config_hash;
  std::map<std::string, std::string> needs;  ///< config hashes of its own stages, by table
  int64_t reused_run = 0;                    ///< the finished run that replaces it; 0: it runs
  std::filesystem::path model;               ///< of the reused run
  bool begun = false;                        ///< the log has an unfinished run of it; determined with --resume only
  ResumePoint from;                          ///< with --resume only
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlannedRun, path, tables, file, config_hash, needs, reused_run, model, begun, from)

/// The stages in the order in which they run, deepest first, each once even if several tables name it. A stage that has
/// a finished run in the log is reused, and the stages below it do not run. `resume`: a stage continues from the last
/// checkpoint of an unfinished run. Errors as experiment_hash and resume_point.
std::vector<PlannedRun> plan_stages(const Experiment& experiment, ExperimentHashes& hashes, bool resume);

/// The stages, then the experiment itself. Error(data) when `resume` finds no checkpoint of the experiment and no
/// unfinished run of a stage; logs when only a stage has one.
std::vector<PlannedRun> plan_run(const Experiment& experiment, ExperimentHashes& hashes, bool resume);

/// The experiment to which a PlannedRun's path leads.
const Experiment& experiment_at(const Experiment& experiment, const std::vector<std::string>& path);

/// Logs a line for each stage that is reused.
void log_reused(const std::vector<PlannedRun>& runs);

/// "reference: base.toml".
std::string title_of(const PlannedRun& stage);

/// Logs that a stage starts or resumes; nothing for the experiment.
void log_start(const PlannedRun& run);

struct RunResult {
  ExitStatus status = ExitStatus::done;
  std::filesystem::path model;  ///< complete when done
};
using StartRun = std::function<RunResult(const PlannedRun& run, const Stages& stages)>;

/// Starts each run that is not reused, with the models of the stages that it needs. Ends at the first that is not done.
ExitStatus run_in_order(const std::vector<PlannedRun>& runs, const StartRun& start);

}  // namespace wmtp
