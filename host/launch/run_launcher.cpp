#include "launch/run_launcher.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/json.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/verify.hpp"
#include "comm/rank_environment.hpp"
#include "export/live_trackers.hpp"
#include "io/draft.hpp"
#include "io/scratch_folder.hpp"
#include "job/checkpoint_rows.hpp"
#include "job/engine_process.hpp"
#include "job/input_checks.hpp"
#include "job/reusable_run.hpp"
#include "launch/end_command.hpp"
#include "launch/launcher_stop_handler.hpp"
#include "log/log_reader.hpp"
#include "log/run_folders.hpp"
#include "log/run_log.hpp"
#include "log/spool.hpp"
#include "plan/machine_fit.hpp"

namespace wmtp {
namespace {

/// `file`: see run_id_file_variable.
RunRow run_row_in(const std::filesystem::path& file) {
  RunRow row;
  std::string folder;
  std::ifstream in(file);
  std::getline(in >> row.id >> row.key >> std::ws, folder);
  if (row.key.empty()) return {};
  row.folder = folder;
  if (int code; in >> code) row.ended = ExitStatus(code);
  return row;
}

/// Closes the row of a run whose rank 0 did not; returns whether it was open. A finished run that was stopped while it
/// sent its metrics to trackers stays finished.
bool close_row(const std::filesystem::path& database, const RunRow& row, const LaunchResult& result) {
  if (row.id == 0 || row.ended == result.status) return false;
  if (row.ended == ExitStatus::done && result.stop_requested) return false;
  try {
    return close_lost_run(database, row.id, row.key, result.status, result.reason);
  } catch (const Error& error) {  // the exit code of the ranks takes precedence
    log_warning("run " + std::to_string(row.id) + " could not be closed in the log: " + error.what());
    return true;
  }
}

/// What killed ranks have left behind.
void remove_drafts(const std::filesystem::path& database, const RunRow& row) {
  remove_abandoned_drafts(cache_folder_path(database));
  if (row.id != 0) remove_abandoned_drafts(row.folder);
}

bool would_fail_again(ExitStatus status) {
  using enum ExitStatus;
  return status != done && status != peer && status != storage && status != device_memory && status != interrupted;
}

/// Whether the ranks may get further if they are started again: not after an error that would come again, nor after a
/// request to stop.
bool may_succeed_again(const LaunchResult& result) {
  return !result.stop_requested && (result.status == ExitStatus::peer || result.status == ExitStatus::device_memory);
}

/// Where the next attempt of a run begins: at the newest checkpoint of `attempts`, or else where the first one did.
ResumePoint continued_from(const std::vector<RunInfo>& attempts, const ResumePoint& first,
                           const std::filesystem::path& database) {
  ResumePoint from = resume_point(attempts, database).value_or(first);
  if (from.folder.empty()) {
    from.folder = first.folder;
    from.config_hash = first.config_hash;
  }
  return from;
}

/// From when on the work of an attempt is lost: since its last checkpoint, or else since the command started the run.
std::chrono::system_clock::time_point time_of_loss(std::chrono::system_clock::time_point begun,
                                                   const ResumePoint& from) {
  std::error_code gone;
  const auto saved = std::filesystem::last_write_time(from.folder / manifest_file_name, gone);
  if (from.folder.empty() || gone) return begun;
  return std::max(
      begun, std::chrono::time_point_cast<std::chrono::system_clock::duration>(std::chrono::file_clock::to_sys(saved)));
}

int64_t nanoseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// What is left of a run that was stopped before it could save.
std::string about_unsaved(const RunRow& row) {
  if (row.id == 0) return "stopped before the run began: nothing was saved";
  const std::string run = "run " + std::to_string(row.id) + " was stopped without a new checkpoint: ";
  // Not from the log, which hears of a checkpoint after it is complete.
  const std::vector<std::filesystem::path> saved = list_checkpoints(row.folder);
  if (saved.empty()) return run + "nothing was saved";
  return run + "--resume continues from step " +
         std::to_string(parse_checkpoint_step(saved.front().filename().string()));
}

/// The model of a stage that has just finished; "" if it is another one than was planned. Another program may lock the
/// log, which then does not know yet that the run has finished.
std::filesystem::path model_of_stage(const std::string& config_hash, const std::filesystem::path& database,
                                     const RunRow& row) {
  if (const auto finished = reusable_run(config_hash, database)) return model_in(finished->folder);
  const Table hash = LogReader(database).query("SELECT config_hash FROM runs WHERE id = ?1", {row.id}, 1);
  if (row.ended != ExitStatus::done || hash.rows.empty() || hash.rows[0][0] != config_hash) return {};
  verify_checkpoint(model_in(row.folder));
  return model_in(row.folder);
}

}  // namespace

RunLauncher::RunLauncher(const JobRequest& request, SourceTexts& texts)
    : texts_(texts),
      catalog_(request.plugin_folders),
      job_(make_job(request, catalog_, texts)),
      hashes_(catalog_, job_.database) {}

void RunLauncher::log_runs() {
  const ResumeRule rule{job_.resume, "", /*dry=*/true};
  // Only to resume does a run need its hash, and thus all data to be read.
  const std::vector<RunPlan> runs = rule.resume == Resume::no ? plan_stages(job_.experiment, hashes_, rule)
                                                              : plan_run(job_.experiment, hashes_, rule);
  for (const std::string& warning : warnings(runs)) log_warning(warning);
  log_plan(runs);
  check_stages(runs);
  for (const RunPlan& run : runs)
    if (!run.path.empty() && run.reused_run == 0)
      log_info(run.from.run_id > 0 ? start_text(run)
                                   : stage_title(run) + " would run first: no finished run in the log");
}

std::vector<std::string> RunLauncher::warnings() {
  return warnings(plan_stages(job_.experiment, hashes_, ResumeRule()));
}

std::vector<std::string> RunLauncher::warnings(const std::vector<RunPlan>& runs) const {
  std::vector<std::string> found = input_warnings(job_.experiment, job_.database);
  std::ranges::move(missing_trackers(job_.experiment.log), std::back_inserter(found));
  for (const RunPlan& run : runs)
    if (run.reused_run == 0 && !run.path.empty())
      std::ranges::move(input_warnings(experiment_at(job_.experiment, run.path), job_.database),
                        std::back_inserter(found));
  return found;
}

ExitStatus RunLauncher::run() {
  load_spools(job_.database);  // which may have the end of a run
  const std::vector<RunPlan> runs = plan_run(job_.experiment, hashes_, {job_.resume, ""});
  log_plan(runs);
  return run(runs);
}

ExitStatus RunLauncher::run_missing_stages(FailedStages& failed) {
  const std::vector<RunPlan> stages = plan_stages(job_.experiment, hashes_, {job_.resume, ""});
  for (const RunPlan& stage : stages)
    if (const auto found = failed.find(stage.config_hash); stage.reused_run == 0 && found != failed.end()) {
      log_error(stage_title(stage) + " did not finish for another member, so " + job_.file + " is not started");
      return found->second;
    }
  return run(stages, &failed);
}

bool RunLauncher::is_begun() {
  const auto begun = [&](const auto& self, const Experiment& experiment) -> bool {
    return has_unfinished_run(hashes_.hash(experiment), job_.database) ||
           std::any_of(experiment.stages.begin(), experiment.stages.end(),
                       [&](const auto& stage) { return self(self, *stage.second); });
  };
  return begun(begun, job_.experiment);
}

std::vector<std::string> RunLauncher::member_call() const {
  JobRequest request = job_;
  if (request.resume == Resume::must) request.resume = Resume::if_begun;  // another member is begun
  request.sources = texts_.file();
  std::vector<std::string> arguments{"run", job_.file, "--member", to_text(request)};
  if (!end_command_.empty()) arguments.insert(arguments.end(), {"--on-end", end_command_.string()});
  if (job_.quiet) arguments.push_back("--quiet");
  if (job_.no_color) arguments.push_back("--no-color");
  return arguments;
}

void RunLauncher::check(int64_t hosts) {
  check_inputs(job_.experiment, job_.experiment.parallel.processes);
  check_fit(hosts);
}

void RunLauncher::check_inputs(const Experiment& experiment, int64_t processes) {
  wmtp::check_inputs(experiment, processes, catalog_, hashes_, job_.database);
  check_offload_folder(experiment);
}

void RunLauncher::check_fit(const Experiment& experiment, int64_t processes, int64_t hosts) {
  check_groups(experiment, processes);
  Experiment started = experiment;
  started.parallel.processes = processes;
  started.parallel.oversubscribe |= job_.experiment.parallel.oversubscribe;  // applies to stages, like --nproc
  started = with_host_shard_groups(started, ranks_per_host(started, hosts), started.parallel.processes);
  check_fits(started, catalog_, job_.database, hosts);
}

void RunLauncher::check_stages(const std::vector<RunPlan>& runs) {
  for (const RunPlan& run : runs) {
    if (run.reused_run != 0 || run.path.empty()) continue;
    const Experiment& stage = experiment_at(job_.experiment, run.path);
    check_inputs(stage, num_processes(run));
    check_fit(stage, num_processes(run), /*hosts=*/1);
  }
}

ExitStatus RunLauncher::run(const std::vector<RunPlan>& runs, FailedStages* failed) {
  check_stages(runs);
  std::shared_ptr<ForkServer> engine;
  return run_in_order(runs, [&](const RunPlan& run, const Stages& stages) {
    if (!engine) engine = start_engine();
    const bool is_last = run.path.empty();
    RunResult result = start(run, stages, is_last ? std::exchange(engine, nullptr) : engine);
    if (failed && would_fail_again(result.status)) failed->emplace(run.config_hash, result.status);
    return result;
  });
}

ExitStatus RunLauncher::run_on(const JobNode& node) {
  if (const int port = wanted_master_port(); port != 0 && port != node.port)
    throw Error(ExitStatus::usage, "environment: MASTER_PORT is " + std::to_string(port) +
                                       ", but --rendezvous names port " + std::to_string(node.port) +
                                       "; unset MASTER_PORT, or make them equal");
  LaunchRequest wanted;
  wanted.num_ranks = int(ranks_per_host(job_.experiment, node.count));
  wanted.port = node.port;
  wanted.share = HostShare{int(node.rank) * wanted.num_ranks, int(job_.experiment.parallel.processes), node.address};
  const auto [result, row] = launch(std::move(wanted), job_, start_engine());
  call_end_command(job_, result, row);
  return result.status;
}

void RunLauncher::call_end_command(const JobRequest& request, const LaunchResult& result, const RunRow& row) const {
  if (end_command_.empty()) return;
  run_end_command(end_command_, job_.database,
                  {row.id, experiment_at(job_.experiment, request.stage).name, result.status, result.reason});
}

std::pair<LaunchResult, RunRow> RunLauncher::launch(LaunchRequest wanted, JobRequest request,
                                                    std::shared_ptr<ForkServer> engine) {
  const ScratchFolder folder;
  const std::filesystem::path id_file = folder.path() / "run";
  request.sources = texts_.file();
  wanted.arguments = rank_arguments(request);
  wanted.environment[run_id_file_variable] = id_file.string();
  wanted.timeout_seconds = experiment_at(job_.experiment, request.stage).parallel.timeout_seconds;
  engine->wait_until_ready();  // here, where a request to stop ends this process (launcher_stop_handler.hpp)
  wanted.start_rank = [engine = std::move(engine)](const ChildRequest& rank) {
    note_ranks_start();
    return engine->start(rank);
  };
  const bool has_rank_0 = wanted.first_rank() == 0;
  LaunchResult result = launch_ranks(std::move(wanted));
  const RunRow row = run_row_in(id_file);  // written by rank 0
  if (result.status != ExitStatus::done) remove_drafts(job_.database, row);
  load_spools(job_.database);
  if (result.status != ExitStatus::done && row.id != 0)
    correct_checkpoint_rows(job_.database, {row.id, row.key}, row.folder);
  const bool unsaved = result.status != ExitStatus::done && (close_row(job_.database, row, result) || row.id == 0);
  if (unsaved && has_rank_0 && result.status == ExitStatus::interrupted) log_warning(about_unsaved(row));
  return {result, row};
}

RunResult RunLauncher::start(const RunPlan& run, const Stages& stages, std::shared_ptr<ForkServer> engine) {
  log_start(run, !job_.overrides.empty());
  JobRequest request = job_;
  request.stage = run.path;
  request.stages = stages;
  request.from = run.from;
  LaunchRequest wanted;
  wanted.num_ranks = int(num_processes(run));
  wanted.port = wanted_master_port();
  const auto begun = std::chrono::system_clock::now();
  std::pair<LaunchResult, RunRow> ended = launch(wanted, request, std::move(engine));
  std::vector<RunInfo> attempts;  // newest first
  while (may_succeed_again(ended.first) && request.restart.number < job_.max_restarts && !note_ranks_recorded()) {
    if (ended.second.id > 0) attempts.insert(attempts.begin(), {ended.second.id, "", "", ended.second.folder});
    RunPlan again = run;
    again.from = continued_from(attempts, run.from, job_.database);
    request.from = again.from;
    request.restart = {request.restart.number + 1, ended.first.reason, nanoseconds(time_of_loss(begun, again.from))};
    log_warning(start_text(again) + " (restart " + std::to_string(request.restart.number) + " of " +
                std::to_string(job_.max_restarts) + ", because " + ended.first.reason + ")");
    ended = launch(wanted, request, start_engine());
  }
  const auto& [result, row] = ended;
  call_end_command(request, result, row);
  stop_requested_ |= note_ranks_recorded() || result.stop_requested;
  if (run.path.empty()) return {result.status, {}};
  if (result.status != ExitStatus::done) {
    log_error(stage_title(run) + " did not finish, so " + job_.file + " is not started");
    return {result.status, {}};
  }
  if (stop_requested_) {
    log_warning(stage_title(run) + " has finished; stopped before " + job_.file + " was started");
    return {ExitStatus::interrupted, {}};
  }
  if (const std::filesystem::path model = model_of_stage(run.config_hash, job_.database, row); !model.empty())
    return {result.status, model};
  throw Error(ExitStatus::data,
              stage_title(run) + " finished, but its data or weights changed meanwhile; run it again");
}

int64_t RunLauncher::num_processes(const RunPlan& run) const {
  return wmtp::num_processes(experiment_at(job_.experiment, run.path), job_.nproc);
}

}  // namespace wmtp
