// The stages of an experiment: which of them run and in which order, which weights each run gets, and from which
// checkpoint it resumes.
//
// The launcher decides this from the log before anything runs, and then starts ranks for each run. Under a foreign
// launcher rank 0 decides and sends the plan to the other ranks, and the same ranks perform all runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "experiment/experiment.hpp"
#include "job/identity.hpp"

namespace wmtp {

struct ResumePoint {
  int64_t run_id = 0;            ///< 0: none, the run starts at step 0
  std::filesystem::path folder;  ///< an intact step-NNNNNN/
  std::string config_hash;       ///< of a run with fewer steps that is extended; "": the hash of the run itself
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ResumePoint, run_id, folder, config_hash)

/// [rank 0, or the launcher] The newest unfinished run of this configuration with an intact checkpoint, or nullopt.
/// Renames damaged checkpoints, with a warning for each. A run resumed by a finished run counts as finished.
/// Error(data) if the run is still active.
std::optional<ResumePoint> resume_point(const std::string& config_hash, const std::filesystem::path& database);

/// Whether the log contains an unfinished run of this configuration, with or without a checkpoint.
bool has_unfinished_run(const std::string& config_hash, const std::filesystem::path& database);

/// Hashes of experiments and their stages, each computed once, because that reads their data.
class ExperimentHashes {
 public:
  ExperimentHashes(const Catalog& catalog, std::filesystem::path database)
      : catalog_(catalog), database_(std::move(database)) {}
  virtual ~ExperimentHashes() = default;
  const std::filesystem::path& database() const { return database_; }
  /// The hash of an experiment, which must outlive this object. Errors as experiment_hash.
  virtual const std::string& hash(const Experiment& experiment);
  /// The same experiment with another number of steps; lives as long as this object.
  const Experiment& with_steps(const Experiment& experiment, int64_t steps);

 private:
  const Catalog& catalog_;
  std::filesystem::path database_;
  std::map<const Experiment*, std::string> known_;
  std::list<Experiment> other_steps_;
};

/// A run of a stage or of the experiment itself.
struct RunPlan {
  std::vector<std::string> path;  ///< tables from the experiment down to the stage; empty for the experiment
  std::string tables;             ///< that name the stage: "reference", or "model and value"
  std::string file;               ///< its name, for messages
  std::string config_hash;
  std::map<std::string, std::string> needs;  ///< config hashes of its own stages, by table
  int64_t reused_run = 0;                    ///< a finished run to use instead; 0: it runs
  std::filesystem::path model;               ///< the reused run's model
  bool begun = false;                        ///< the log has an unfinished run of it; only set with --resume
  ResumePoint from;                          ///< with --resume only
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunPlan, path, tables, file, config_hash, needs, reused_run, model, begun, from)

/// The stages in execution order, deepest first, each once even if several tables name it. A stage with a finished run
/// in the log is reused, and the stages below it do not run. `resume`: a stage continues from the last checkpoint of an
/// unfinished run. Errors as experiment_hash and resume_point.
std::vector<RunPlan> plan_stages(const Experiment& experiment, ExperimentHashes& hashes, bool resume);

/// The stages, then the experiment itself. With `resume` it continues from its unfinished run, or else from the newest
/// run of its name with fewer [train] steps and no other difference, which is extended. Error(data) if `resume` finds
/// neither a checkpoint of the experiment nor an unfinished run of a stage; logs a message if only a stage has one.
std::vector<RunPlan> plan_run(const Experiment& experiment, ExperimentHashes& hashes, bool resume);

/// The experiment at the end of a RunPlan's path.
const Experiment& experiment_at(const Experiment& experiment, const std::vector<std::string>& path);

/// Logs a line per reused stage.
void log_plan(const std::vector<RunPlan>& runs);

/// "reference: base.toml".
std::string stage_title(const RunPlan& stage);

/// Logs that a stage starts or resumes; does nothing for the experiment.
void log_start(const RunPlan& run);

struct RunResult {
  ExitStatus status = ExitStatus::done;
  std::filesystem::path model;  ///< complete when done
};
using StartRun = std::function<RunResult(const RunPlan& run, const Stages& stages)>;

/// Starts each run that is not reused, with the models of its stages. Stops at the first that is not done.
ExitStatus run_in_order(const std::vector<RunPlan>& runs, const StartRun& start);

}  // namespace wmtp
