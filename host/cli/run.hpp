// `run`: one experiment with its stages (RunCommand), and several as one sweep (run_sweep).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "core/config/sweep.hpp"
#include "core/job/input_checks.hpp"
#include "core/job/job_request.hpp"
#include "core/job/stages.hpp"
#include "core/plugins/catalog.hpp"

namespace wmtp {

struct RunOptions {
  std::vector<std::string> files;
  JobRequest request;  ///< of the file that is run
  int64_t jobs = 0;    ///< members that run at the same time; 0: not given
  bool dry_run = false;
  bool resume_stages = false;  ///< a member of a resumed sweep: its stages resume, itself only if it was started before
  bool member = false;         ///< the process of one member of a sweep
};

/// One experiment, which is loaded and checked by the constructor and never read again.
class RunCommand {
 public:
  RunCommand(const RunOptions& options, SourceTexts& texts);

  const Experiment& experiment() const { return job_.experiment; }
  const std::filesystem::path& database() const { return job_.database; }
  const std::string& config_hash() { return hashes_.of(job_.experiment); }

  /// Checks all that can be checked before a process is started: the experiment's inputs, ranks, memory and cores.
  void check() { check(job_.experiment, job_.experiment.parallel.processes); }
  int dry_run();
  /// Runs missing stages, then the experiment.
  int run();
  int run_missing_stages();
  /// The command line of a process that does what run() does.
  std::vector<std::string> member_call(bool resume) const;

 private:
  ExitStatus run_stages(const Experiment& experiment, std::vector<std::string> held_out, Stages& stages);
  ExitStatus run_stage(const NamedStage& named, const std::vector<std::string>& held_out, Stage& stage);
  void check(const Experiment& experiment, int64_t processes);
  ExitStatus launch(JobRequest request, const Stages& stages, const std::vector<std::string>& held_out,
                    const Experiment& experiment, int64_t processes);
  bool has_resume_point(const Experiment& experiment);
  bool has_started_stage(const Experiment& experiment);

  const RunOptions& options_;
  const JobRequest& request_;
  SourceTexts& texts_;
  Catalog catalog_;
  Job job_;
  ExperimentHashes hashes_;
  std::set<std::string> listed_;  ///< stages that a dry run has listed
  bool log_reused_ = true;
};

using Sweeps = std::vector<std::vector<SweepMember>>;  ///< of each file; empty without [sweep]

/// Loads and checks every member of every file, then runs those without a finished run in the log, after the stages
/// that they need, and prints one table of all to stdout. A failing member does not end the others; the exit code is
/// that of the first member that failed. After an interrupt no further member is started. Error(usage) if the members
/// that run at the same time need more cores than there are.
int run_sweep(const RunOptions& options, const Sweeps& sweeps, SourceTexts& texts);

}  // namespace wmtp
