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
#include "log/log_reader.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {

enum class Resume {
  no,
  if_begun,  ///< --resume: continue what was begun; start if nothing was; end if all is done
  must,      ///< --resume=must: Error(data) if there is nothing to continue
  own,       ///< of a study: as if_begun, but no run of fewer steps is extended, whose learning rate may have fallen
};
template <>
inline constexpr auto names_of<Resume> = std::array{"no", "yes", "must", "own"};
static_assert(names_of<Resume>.size() == size_t(Resume::own) + 1);

/// Which earlier runs of an experiment count as begun.
struct ResumeRule {
  Resume resume = Resume::no;
  std::string since;  ///< only runs that started then or later, as in `runs`.started_at; "": all
  bool dry = false;   ///< only says what would be done: renames and removes nothing
};

struct ResumePoint {
  int64_t run_id = 0;            ///< the run that is continued; 0: none
  std::filesystem::path folder;  ///< an intact step-NNNNNN/, of that run or one that it resumed; "": it has none
  std::string config_hash;       ///< of a run with fewer steps that is extended; "": the hash of the run itself
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ResumePoint, run_id, folder, config_hash)

/// [rank 0, or the launcher] The newest unfinished run of this configuration with an intact checkpoint, or the newest
/// one that resumed it and has none of its own. Without a checkpoint, the newest unfinished run and no folder; without
/// such a run nullopt. Renames damaged checkpoints, with a warning for each, and removes what killed processes left. A
/// run resumed by a finished run counts as finished. Error(data) if the run is still active; with `since` it then
/// belongs to another job and is passed over. Asks `rule` only for `since` and `dry`.
std::optional<ResumePoint> resume_point(const std::string& config_hash, const std::filesystem::path& database,
                                        const ResumeRule& rule = {});
/// The same for these runs, newest first.
std::optional<ResumePoint> resume_point(const std::vector<RunInfo>& runs, const std::filesystem::path& database,
                                        const ResumeRule& rule = {});

/// Whether the log contains an unfinished run of this configuration, with or without a checkpoint.
bool has_unfinished_run(const std::string& config_hash, const std::filesystem::path& database);

/// Hashes of experiments and their stages, each computed once, because that reads their data.
class ExperimentHashes {
 public:
  ExperimentHashes(const Catalog& catalog, std::filesystem::path database)
      : catalog_(catalog), database_(std::move(database)) {}
  virtual ~ExperimentHashes() = default;
  const Catalog& catalog() const { return catalog_; }
  const std::filesystem::path& database() const { return database_; }
  /// The hash of an experiment, which must outlive this object. Errors as experiment_hash.
  virtual const std::string& hash(const Experiment& experiment);
  /// The hashes of its stages; their models are not known here. Errors as above.
  Stages stages(const Experiment& experiment);
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
  std::vector<std::string> rebuilt;          ///< rebuilt_plugins of the reused run
  ResumePoint from;                          ///< with --resume only
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunPlan, path, tables, file, config_hash, needs, reused_run, model, rebuilt, from)

/// The stages in execution order, deepest first, each once even if several tables name it. A stage with a finished run
/// in the log is reused, and the stages below it do not run. With a rule to resume, a stage continues its unfinished
/// run. Errors as experiment_hash and resume_point.
std::vector<RunPlan> plan_stages(const Experiment& experiment, ExperimentHashes& hashes, const ResumeRule& rule);

/// The stages, then the experiment itself. With a rule to resume, the first of these that applies: the experiment
/// continues its unfinished run; it has a finished one, newer or where the unfinished one has no checkpoint, which is
/// reused, and nothing runs; it extends the newest run of its name with fewer [train] steps and no other difference; it
/// starts at step 0. With Resume::must, a finished run does not count, and it starts at step 0 only if a stage is
/// continued: Error(data) otherwise.
std::vector<RunPlan> plan_run(const Experiment& experiment, ExperimentHashes& hashes, const ResumeRule& rule);

/// The experiment at the end of a RunPlan's path.
const Experiment& experiment_at(const Experiment& experiment, const std::vector<std::string>& path);

/// Logs which run is continued, or is finished, and a line per reused stage.
void log_plan(const std::vector<RunPlan>& runs);

/// "reference: base.toml".
std::string stage_title(const RunPlan& stage);

/// "rho1.toml: continues run 3 at step 11", or with the title of a stage.
std::string start_text(const RunPlan& run);

/// Logs that a stage starts or resumes; does nothing for the experiment.
/// `has_overrides`: whether the command has --set, which does not reach stages.
void log_start(const RunPlan& run, bool has_overrides);

struct RunResult {
  ExitStatus status = ExitStatus::done;
  std::filesystem::path model;  ///< complete when done
};
using StartRun = std::function<RunResult(const RunPlan& run, const Stages& stages)>;

/// Starts each run that is not reused, with the models of its stages. Stops at the first that is not done.
ExitStatus run_in_order(const std::vector<RunPlan>& runs, const StartRun& start);

}  // namespace wmtp
