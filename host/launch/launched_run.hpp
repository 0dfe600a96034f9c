// One experiment under our launcher.
//
// 1. the experiment is loaded and checked  2. each stage without a finished run of its hash is started as a job of ranks
// of its own  3. the experiment's ranks are started and watched  4. a row that rank 0 has not closed, however it ended,
// is closed here
// A crash of the launcher leaves no rank behind, and a row whose missing heartbeat marks the run as lost.
#pragma once

#include <string>
#include <vector>

#include "core/job/job_request.hpp"
#include "core/job/stages.hpp"
#include "core/plugins/catalog.hpp"

namespace wmtp {

/// The experiment is loaded and checked by the constructor. From then on it is a value: neither this process nor those
/// that it starts read its files again.
class LaunchedRun {
 public:
  LaunchedRun(const JobRequest& request, SourceTexts& texts);
  LaunchedRun(const LaunchedRun&) = delete;  // `hashes_` refers to `catalog_`

  const Job& job() const { return job_; }
  const std::string& config_hash() { return hashes_.of(job_.experiment); }

  /// Checks all that can be checked before a process is started: the experiment's inputs, ranks, memory and cores.
  void check() { check(job_.experiment, job_.experiment.parallel.processes); }
  /// Logs what run() would do with each stage.
  void log_stages();
  /// Runs missing stages, then the experiment.
  ExitStatus run();
  /// `resume`: unfinished stages continue from their checkpoints.
  ExitStatus run_missing_stages(bool resume);
  /// The command line of a process that does what run() does.
  std::vector<std::string> member_call(bool resume) const;

 private:
  void check(const Experiment& experiment, int64_t processes);
  void check_stages(const std::vector<PlannedRun>& runs);
  ExitStatus run(const std::vector<PlannedRun>& runs);
  RunResult start(const PlannedRun& run, const Stages& stages);
  int64_t processes_of(const PlannedRun& run) const;

  SourceTexts& texts_;
  Catalog catalog_;
  Job job_;
  ExperimentHashes hashes_;
};

}  // namespace wmtp
