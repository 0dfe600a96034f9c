// RunCommand: runs the stages of an experiment and its ranks, and closes the row of a run that rank 0 could not close.
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/run.hpp"
#include "core/experiment/canonical.hpp"
#include "core/job/engine_process.hpp"
#include "core/job/launcher.hpp"
#include "core/job/resume.hpp"
#include "core/plan/fit.hpp"
#include "core/plugins/installation.hpp"
#include "core/rendezvous/rank_environment.hpp"
#include "core/runlog/run_log.hpp"
#include "io/scratch_folder.hpp"

namespace wmtp {
namespace {

/// The file to which rank 0 writes its run's id.
class RunIdFile {
 public:
  const std::string& path() const { return path_; }
  /// 0 if the run has no row.
  int64_t id() const {
    int64_t id = 0;
    std::ifstream(path_) >> id;
    return id;
  }

 private:
  ScratchFolder folder_;
  std::string path_ = folder_.path() / "run";
};

void warn(const std::string& text) { log_warning(text); }

void close_row(const std::filesystem::path& database, int64_t run_id, const LaunchResult& result) {
  try {
    close_lost_run(database, run_id, result.status, result.reason);
  } catch (const Error& error) {  // keeps the ranks' exit code
    log_warning("run " + std::to_string(run_id) + " could not be closed in the log: " + error.what());
  }
}

}  // namespace

RunCommand::RunCommand(const RunOptions& options, SourceTexts& texts)
    : options_(options),
      request_(options.request),
      texts_(texts),
      catalog_(request_.plugin_folders),
      job_(make_job(request_, catalog_, texts)),
      hashes_(catalog_, job_.database) {}

int RunCommand::dry_run() {
  check();
  std::cout << to_toml(job_.experiment);
  Stages none;
  run_stages(job_.experiment, request_.held_out, none);
  return 0;
}

int RunCommand::run() {
  check();
  const bool resumes = request_.resume && has_resume_point(job_.experiment);
  if (request_.resume && !resumes && !has_started_stage(job_.experiment))
    find_resume_point(hashes_.of(job_.experiment), job_.database, warn);  // throws, since there is none
  Stages stages;
  const ExitStatus status = run_stages(job_.experiment, request_.held_out, stages);
  if (status != ExitStatus::done) return static_cast<int>(status);
  if (request_.resume && !resumes) log_info(request_.file + " itself has no checkpoint, so it starts at step 0");
  JobRequest request = request_;
  request.resume = resumes;
  return static_cast<int>(
      launch(std::move(request), stages, request_.held_out, job_.experiment, job_.experiment.parallel.processes));
}

int RunCommand::run_missing_stages() {
  log_reused_ = false;
  Stages stages;
  return static_cast<int>(run_stages(job_.experiment, request_.held_out, stages));
}

std::vector<std::string> RunCommand::member_call(bool resume) const {
  std::vector<std::string> arguments{"run", request_.file, "--member"};
  for (const auto& text : request_.overrides) arguments.insert(arguments.end(), {"--set", text});
  if (!request_.name.empty()) arguments.insert(arguments.end(), {"--name", request_.name});
  if (resume) arguments.push_back("--resume");
  if (request_.nproc > 0) arguments.insert(arguments.end(), {"--nproc", std::to_string(request_.nproc)});
  arguments.insert(arguments.end(), {"--db", job_.database.string(), "--sources", texts_.file().string()});
  for (const auto& folder : request_.plugin_folders)
    arguments.insert(arguments.end(), {"--plugin-dir", folder.string()});
  if (request_.quiet) arguments.push_back("--quiet");
  if (request_.no_color) arguments.push_back("--no-color");
  return arguments;
}

/// Runs missing stages, deepest first; a dry run only lists them. Fills in the stages that `experiment` names.
ExitStatus RunCommand::run_stages(const Experiment& experiment, std::vector<std::string> held_out, Stages& stages) {
  for (const auto& pattern : experiment.validation.files) held_out.push_back(experiment.resolve(pattern).string());
  for (const NamedStage& named : named_stages(experiment)) {
    Stage stage{hashes_.of(*named.experiment), {}};
    const ExitStatus status = run_stage(named, held_out, stage);
    if (status != ExitStatus::done) return status;
    for (const std::string& table : named.tables) stages[table] = stage;
  }
  return ExitStatus::done;
}

ExitStatus RunCommand::run_stage(const NamedStage& named, const std::vector<std::string>& held_out, Stage& stage) {
  const Experiment& experiment = *named.experiment;
  const std::string name = experiment.file.filename().string(), text = tables_text(named) + ": " + name;
  if (const auto run = reusable_run(stage.config_hash, job_.database)) {
    if (log_reused_) log_info(tables_text(named) + ": run " + std::to_string(run->id) + " of " + name + " is reused");
    stage.model = model_in(run->folder);
    return ExitStatus::done;
  }
  const int64_t processes = processes_of(experiment, request_.nproc);
  check(experiment, processes);
  Stages inner;
  const ExitStatus inner_status = run_stages(experiment, held_out, inner);
  if (inner_status != ExitStatus::done) return inner_status;
  if (options_.dry_run) {
    if (listed_.insert(stage.config_hash).second)
      log_info(text + " would run first, the log has no finished run of it");
    return ExitStatus::done;
  }
  const bool may_resume = request_.resume || options_.resume_stages;
  JobRequest request = request_;
  request.file = experiment.file.string();
  request.overrides.clear();
  request.name.clear();
  request.name_suffix.clear();
  request.resume = may_resume && has_resume_point(experiment);
  log_info(text + (request.resume ? " resumes first, from its last checkpoint"
                   : may_resume && was_begun(stage.config_hash, job_.database)
                       ? " restarts first: its unfinished run has no checkpoint"
                       : " runs first, the log has no finished run of it"));
  const ExitStatus status = launch(std::move(request), inner, held_out, experiment, processes);
  if (status != ExitStatus::done) {
    log_error(text + " did not finish, so " + request_.file + " is not started");
    return status;
  }
  const auto run = reusable_run(stage.config_hash, job_.database);
  if (!run) throw Error(ExitStatus::data, text + " ran, but its data or weights changed in the meantime; run it again");
  stage.model = model_in(run->folder);
  return status;
}

void RunCommand::check(const Experiment& experiment, int64_t processes) {
  check_inputs(experiment, processes, catalog_, hashes_, job_.database);
  check_groups(experiment, processes);
  Experiment started = experiment;
  started.parallel.processes = processes;
  started.parallel.oversubscribe |= job_.experiment.parallel.oversubscribe;  // applies to stages, as --nproc does
  check_fits(started, catalog_, job_.database.parent_path() / "cache");
}

ExitStatus RunCommand::launch(JobRequest request, const Stages& stages, const std::vector<std::string>& held_out,
                              const Experiment& experiment, int64_t processes) {
  const RunIdFile id_file;
  request.stages = stages;
  request.held_out = held_out;
  request.hold_out_problems = experiment.data.hold_out_problems;
  request.hold_out_share = experiment.data.hold_out_share;
  request.database = job_.database;
  request.sources = texts_.file();
  LaunchRequest wanted;
  wanted.program = engine_program();
  wanted.arguments = rank_arguments(request);
  wanted.environment[run_id_file_variable] = id_file.path();
  wanted.num_ranks = static_cast<int>(processes);
  wanted.port = wanted_master_port();
  const LaunchResult result = launch_ranks(wanted);
  if (result.status != ExitStatus::done && id_file.id() > 0) close_row(job_.database, id_file.id(), result);
  return result.status;
}

bool RunCommand::has_resume_point(const Experiment& experiment) {
  return resume_point(hashes_.of(experiment), job_.database, warn).has_value();
}

/// Whether the log has an unfinished run of a stage, at any depth.
bool RunCommand::has_started_stage(const Experiment& experiment) {
  for (const NamedStage& named : named_stages(experiment))
    if (was_begun(hashes_.of(*named.experiment), job_.database) || has_started_stage(*named.experiment)) return true;
  return false;
}

}  // namespace wmtp
