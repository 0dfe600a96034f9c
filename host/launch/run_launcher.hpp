// Runs one experiment under our launcher.
//
// 1. loads and checks the experiment  2. starts each stage that has no finished run of the same hash, as a separate
//    job  3. starts and watches the experiment's ranks  4. closes the run's row if rank 0 did not, however it ended
// 5. with --max-restarts, starts all ranks of a run again after a lost rank or a lack of memory, from the newest intact
//    checkpoint (docs/decisions/0066)
//
// A crash of the launcher leaves no rank behind; the missing heartbeat then marks the run as lost.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/identity.hpp"
#include "job/job_request.hpp"
#include "job/stages.hpp"
#include "launch/rank_launcher.hpp"
#include "plugins/catalog.hpp"
#include "process/fork_server.hpp"

namespace wmtp {

/// This host among those that start an experiment together, each with its own launcher.
struct JobNode {
  int64_t count = 1, rank = 0;
  std::string address;  ///< of the rendezvous, on node 0
  int port = 0;
};

/// What identifies a run and its row.
struct RunRow {
  int64_t id = 0;  ///< 0: the run has none
  std::string key;
  std::filesystem::path folder;     ///< of its files
  std::optional<ExitStatus> ended;  ///< with which rank 0 has closed the row; the log may have been locked then
};

/// How stages ended that other members of a sweep need, too, by config hash.
using FailedStages = std::map<std::string, ExitStatus>;

/// The constructor loads and checks the experiment. From then on it is a value: neither this process nor its children
/// read the files again.
class RunLauncher {
 public:
  RunLauncher(const JobRequest& request, SourceTexts& texts);
  RunLauncher(const RunLauncher&) = delete;  // `hashes_` refers to `catalog_`

  const Job& job() const { return job_; }
  const Catalog& catalog() const { return catalog_; }
  /// Program to call when a run or a stage ends (end_command.hpp).
  void on_end(std::filesystem::path program) { end_command_ = std::move(program); }
  const std::string& config_hash() { return hashes_.hash(job_.experiment); }

  /// Checks what can be checked before starting a process: the experiment's inputs, ranks, memory and cores.
  void check(int64_t hosts = 1);
  /// Only ranks, memory and cores: the ranks of several hosts compare their inputs, so that every host prints which
  /// data and weights one of them lacks.
  void check_fit(int64_t hosts) { check_fit(job_.experiment, job_.experiment.parallel.processes, hosts); }
  /// What ranks would warn of (job/input_checks.hpp), of stages that would run too.
  std::vector<std::string> warnings();
  /// Logs these, and what run() would do with each stage and the run. Errors as run().
  void log_runs();
  /// Runs missing stages, then the experiment.
  ExitStatus run();
  /// Runs this node's ranks, which find and run missing stages themselves. Error(usage) if the nodes cannot have
  /// equally many ranks, or MASTER_PORT is set to another port than the rendezvous'.
  ExitStatus run_on(const JobNode& node);
  /// Runs the missing stages alone; none of them if one is among `failed`. Adds one that fails in a way that would come
  /// again: not if a rank was lost, or a resource did not suffice.
  ExitStatus run_missing_stages(FailedStages& failed);
  /// Whether the log has an unfinished run of the experiment or of one of its stages.
  bool is_begun();
  /// Whether a request to stop has come while ranks ran, or while their end was recorded.
  bool stop_requested() const { return stop_requested_; }
  /// The command line of a process that performs run().
  std::vector<std::string> member_call() const;

 private:
  void check_inputs(const Experiment& experiment, int64_t processes);
  void check_fit(const Experiment& experiment, int64_t processes, int64_t hosts);
  void check_stages(const std::vector<RunPlan>& runs);
  std::vector<std::string> warnings(const std::vector<RunPlan>& runs) const;
  ExitStatus run(const std::vector<RunPlan>& runs, FailedStages* failed = nullptr);
  RunResult start(const RunPlan& run, const Stages& stages, std::shared_ptr<ForkServer> engine);
  /// As run_on() and start() end: calls the program of on_end().
  void call_end_command(const JobRequest& request, const LaunchResult& result, const RunRow& row) const;
  /// Launches ranks, and closes the run's row if they did not. Releases the engine once they have started.
  std::pair<LaunchResult, RunRow> launch(LaunchRequest wanted, JobRequest request, std::shared_ptr<ForkServer> engine);
  int64_t num_processes(const RunPlan& run) const;

  SourceTexts& texts_;
  Catalog catalog_;
  Job job_;
  ExperimentHashes hashes_;
  bool stop_requested_ = false;
  std::filesystem::path end_command_;  ///< "": none
};

}  // namespace wmtp
