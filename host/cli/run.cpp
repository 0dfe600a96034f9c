// `run FILE`: an experiment, first the stages it needs.
//
// Alone       1. the experiment is loaded and checked  2. each stage without a finished run of its hash is started as a
//             job of its own, like `run STAGE`  3. the experiment's ranks are started and watched
//             4. a row that rank 0 has not closed, however it ended, is closed here
// With [sweep], or several files, all members are loaded and checked, the stages that they need run one after another,
//             and then each is a call of its own of this program, with --member
// In a job    of torchrun, srun or mpirun this process is one rank and becomes wmtp-engine (exec).
// A crash of the launcher leaves no rank behind, and a row that its heartbeat shows as lost.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <list>
#include <memory>
#include <set>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/sweep.hpp"
#include "core/config/load.hpp"
#include "core/config/sweep.hpp"
#include "core/experiment/canonical.hpp"
#include "core/job/engine_process.hpp"
#include "core/job/input_checks.hpp"
#include "core/job/job_request.hpp"
#include "core/job/launcher.hpp"
#include "core/job/resume.hpp"
#include "core/job/stages.hpp"
#include "core/plan/fit.hpp"
#include "core/plugins/catalog.hpp"
#include "core/plugins/installation.hpp"
#include "core/rendezvous/refusal.hpp"
#include "core/runlog/run_log.hpp"
#include "io/scratch_folder.hpp"
#include "process/child_process.hpp"

namespace wmtp {
namespace {

struct RunOptions {
  std::vector<std::string> files;
  JobRequest request;  ///< of the file that is run
  int64_t jobs = 0;    ///< members that run at the same time; 0: not given
  bool dry_run = false;
  bool resume_stages = false;  ///< of a member of a sweep, which itself is resumed only if it was started before
  bool member = false;         ///< of a sweep or of several files, with its overrides
};

/// Where rank 0 writes its run's id.
class RunIdFile {
 public:
  const std::string& path() const { return path_; }
  /// 0 when the run's row was never made.
  int64_t id() const {
    int64_t id = 0;
    std::ifstream(path_) >> id;
    return id;
  }

 private:
  ScratchFolder folder_;
  std::string path_ = folder_.path() / "run";
};

class RunCommand {
 public:
  RunCommand(const RunOptions& options, SourceTexts& texts)
      : options_(options),
        request_(options.request),
        texts_(texts),
        catalog_(request_.plugin_folders),
        job_(make_job(request_, catalog_, texts)),
        hashes_(catalog_, job_.database) {}

  const Experiment& experiment() const { return job_.experiment; }
  const std::filesystem::path& database() const { return job_.database; }
  const std::string& config_hash() { return hashes_.of(job_.experiment); }

  /// What can be refused before a rank or a stage is started: the experiment's inputs, ranks, memory and cores.
  void check() { check(job_.experiment, job_.experiment.parallel.processes); }

  int dry() {
    check();
    std::cout << to_toml(job_.experiment);
    Stages none;
    run_stages(job_.experiment, request_.held_out, true, none);
    return 0;
  }

  int alone() {
    check();
    const bool goes_on = request_.resume && has_resume_point(job_.experiment);
    if (request_.resume && !goes_on && !has_begun_stage(job_.experiment))
      find_resume_point(hashes_.of(job_.experiment), job_.database, tell);  // throws: there is none
    Stages stages;
    const ExitStatus status = run_stages(job_.experiment, request_.held_out, false, stages);
    if (status != ExitStatus::done) return static_cast<int>(status);
    if (request_.resume && !goes_on) log_info(request_.file + " itself had not begun, so it starts at step 0");
    JobRequest request = request_;
    request.resume = goes_on;
    return static_cast<int>(
        launch(std::move(request), stages, request_.held_out, job_.experiment, job_.experiment.parallel.processes));
  }

  /// Those that the log lacks. Says nothing of the others.
  int run_missing_stages() {
    tell_reused_ = false;
    Stages stages;
    return static_cast<int>(run_stages(job_.experiment, request_.held_out, false, stages));
  }

  /// The arguments of a process of its own that does what alone() would.
  std::vector<std::string> member_call(bool resume) const {
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

 private:
  /// Starts what the log lacks, deepest first; with `only_tell` says it and starts nothing. Gives the stages that
  /// `experiment` itself names.
  ExitStatus run_stages(const Experiment& experiment, std::vector<std::string> held_out, bool only_tell,
                        Stages& stages) {
    for (const auto& pattern : experiment.validation.files) held_out.push_back(experiment.resolve(pattern).string());
    for (const NamedStage& named : named_stages(experiment)) {
      Stage stage{hashes_.of(*named.experiment), {}};
      const ExitStatus status = run_stage(named, held_out, only_tell, stage);
      if (status != ExitStatus::done) return status;
      for (const std::string& table : named.tables) stages[table] = stage;
    }
    return ExitStatus::done;
  }

  ExitStatus run_stage(const NamedStage& named, const std::vector<std::string>& held_out, bool only_tell,
                       Stage& stage) {
    const Experiment& experiment = *named.experiment;
    const std::string file = experiment.file.filename().string();
    const std::string who = tables_text(named) + ": ";
    if (const auto run = reusable_run(stage.config_hash, job_.database)) {
      if (tell_reused_) log_info(who + "run " + std::to_string(run->id) + " of " + file + " is reused");
      stage.model = model_in(run->folder);
      return ExitStatus::done;
    }
    const int64_t processes = request_.nproc > 0 ? request_.nproc : experiment.parallel.processes;
    check(experiment, processes);
    Stages below;
    const ExitStatus inner = run_stages(experiment, held_out, only_tell, below);
    if (inner != ExitStatus::done) return inner;
    if (only_tell) {
      if (told_.insert(stage.config_hash).second)
        log_info(who + file + " would run first, the log has no finished run of it");
      return ExitStatus::done;
    }
    const bool resumes = request_.resume || options_.resume_stages;
    const bool goes_on = resumes && has_resume_point(experiment);
    log_info(who + file +
             (goes_on ? " goes on first, from its last checkpoint"
              : resumes && was_begun(stage.config_hash, job_.database)
                  ? " starts anew: its unfinished run has no checkpoint"
                  : " runs first, the log has no finished run of it"));
    JobRequest request = request_;
    request.file = experiment.file.string();
    request.overrides.clear();
    request.name.clear();
    request.name_suffix.clear();
    request.resume = goes_on;
    const ExitStatus status = launch(std::move(request), below, held_out, experiment, processes);
    if (status != ExitStatus::done) {
      log_error(who + file + " was not finished, so " + request_.file + " was not started");
      return status;
    }
    const auto run = reusable_run(stage.config_hash, job_.database);
    if (!run)
      throw Error(ExitStatus::data, who + file + " was run, but its data or weights changed meanwhile; run it again");
    stage.model = model_in(run->folder);
    return status;
  }

  void check(const Experiment& experiment, int64_t processes) {
    check_inputs(experiment, processes, catalog_, hashes_, job_.database);
    check_groups(experiment, processes);
    Experiment started = experiment;
    started.parallel.processes = processes;
    started.parallel.oversubscribe |= job_.experiment.parallel.oversubscribe;  // as --nproc, for stages too
    check_fits(started, catalog_, job_.database.parent_path() / "cache");
  }

  ExitStatus launch(JobRequest request, const Stages& stages, const std::vector<std::string>& held_out,
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
    if (result.status != ExitStatus::done && id_file.id() > 0) close_row(id_file.id(), result);
    return result.status;
  }

  static void tell(const std::string& text) { log_warning(text); }

  bool has_resume_point(const Experiment& experiment) {
    return resume_point(hashes_.of(experiment), job_.database, tell).has_value();
  }

  /// Whether a stage, or a stage of a stage, is unfinished in the log.
  bool has_begun_stage(const Experiment& experiment) {
    for (const NamedStage& named : named_stages(experiment))
      if (was_begun(hashes_.of(*named.experiment), job_.database) || has_begun_stage(*named.experiment)) return true;
    return false;
  }

  void close_row(int64_t run_id, const LaunchResult& result) {
    try {
      close_lost_run(job_.database, run_id, result.status, result.reason);
    } catch (const Error& error) {  // the ranks' exit code says more than this does
      log_warning("run " + std::to_string(run_id) + " could not be closed in the log: " + error.what());
    }
  }

  const RunOptions& options_;
  const JobRequest& request_;
  SourceTexts& texts_;
  Catalog catalog_;
  Job job_;
  ExperimentHashes hashes_;
  std::set<std::string> told_;  ///< stages of which a dry run has spoken
  bool tell_reused_ = true;
};

/// A member of a sweep, or one file of several, with the options that its launcher hands on.
struct Member {
  Member(const RunOptions& all, const std::string& file, const SweepMember& member, SourceTexts& texts) : options(all) {
    JobRequest& request = options.request;
    request.file = file;
    request.overrides.insert(request.overrides.end(), member.overrides.begin(), member.overrides.end());
    request.name_suffix = member.suffix;
    options.resume_stages = request.resume;
    request.resume = false;  // only of those that were started before
    if (all.files.size() > 1) what = std::filesystem::path(file).filename().string();
    for (const std::string& text : member.overrides) what += (what.empty() ? "" : " ") + text;
    try {
      run.emplace(options, texts);
    } catch (const Error& error) {
      if (member.overrides.empty()) throw;
      throw Error(error.status(), "a member of [sweep] (" + what + "):\n" + error.what());
    }
    request.name = run->experiment().name;
  }
  RunOptions options;
  std::string what;
  std::optional<RunCommand> run;
};

using Sweeps = std::vector<std::vector<SweepMember>>;  ///< of each file; of one without [sweep] none

/// Every member of every file is checked before one runs.
std::list<Member> load_members(const RunOptions& options, const Sweeps& sweeps, SourceTexts& texts) {
  std::list<Member> members;
  for (size_t i = 0; i < sweeps.size(); ++i) {
    for (const SweepMember& one : sweeps[i]) members.emplace_back(options, options.files[i], one, texts);
    if (sweeps[i].empty()) members.emplace_back(options, options.files[i], SweepMember(), texts);
  }
  for (const Member& member : members)
    if (member.run->database() != members.front().run->database())
      throw Error(ExitStatus::usage, member.options.request.file + ": its log is " + member.run->database().string() +
                                         ", that of " + members.front().options.request.file + " is " +
                                         members.front().run->database().string() +
                                         "; name one for all with --db, or run them by themselves");
  return members;
}

int run_members(const RunOptions& options, const Sweeps& sweeps, SourceTexts& texts) {
  std::list<Member> members = load_members(options, sweeps, texts);
  std::vector<SweepRun> runs;
  for (Member& member : members) {
    const Experiment& experiment = member.run->experiment();
    member.run->check();
    runs.push_back({member.what, member.options.request.name, experiment.seed, experiment.parallel.processes,
                    member.run->config_hash(), [&member] { return member.run->run_missing_stages(); },
                    [&member](bool resume) { return member.run->member_call(resume); }});
  }
  return run_sweep(runs, {members.front().run->database(), size_t(std::max<int64_t>(options.jobs, 1)),
                          options.request.resume, options.dry_run});
}

/// Whether the line stands for more than one run. Error(usage) for what goes with many alone, or with one alone.
bool stands_for_many(const RunOptions& options, const Sweeps& sweeps, bool in_a_job) {
  const std::string& first = options.files.front();
  const bool several = options.files.size() > 1, many = several || !sweeps.front().empty();
  if (many && in_a_job)
    throw Error(ExitStatus::usage, (several ? "several files start" : first + ": a [sweep] starts") +
                                       " ranks of its own; run it without a launcher");
  if (several && !options.request.name.empty())
    throw Error(ExitStatus::usage, "--name goes with one FILE; the files say their runs' names themselves");
  if (!many && options.jobs > 0)
    throw Error(ExitStatus::usage,
                "--jobs goes with several files or a [sweep], and " + first + " has none: it is one run");
  return many;
}

int run_as(const std::optional<RankEnvironment>& environment, RunOptions options) {
  check_thread_count();
  SourceTexts texts(options.request.sources);
  if (!options.member) {
    Sweeps sweeps;
    for (const std::string& file : options.files) sweeps.push_back(read_sweep(file, texts));
    if (stands_for_many(options, sweeps, environment.has_value())) return run_members(options, sweeps, texts);
  }
  options.request.file = options.files.front();
  if (environment && !options.dry_run) become_rank(options.request);
  RunCommand run(options, texts);
  // After this line the experiment is a value: neither the file nor the line is read again, here and in what this
  // starts.
  return options.dry_run ? run.dry() : run.alone();
}

int run(RunOptions options, const GlobalOptions& globals) {
  globals.add_to(options.request);
  const auto environment = rank_environment();
  try {
    return run_as(environment, std::move(options));
  } catch (const Error& error) {
    if (environment && !options.dry_run) tell_refusal(*environment, error);
    throw;
  }
}

}  // namespace

void add_run(CommandLine& line) {
  const auto options = std::make_shared<RunOptions>();
  auto& run_command = line.add("run",
                               "run experiments, first the stages they need\n\n"
                               "examples:\n"
                               "  wmtp-host run experiments/rho1.toml\n"
                               "  wmtp-host run experiments/rho1.toml --set pipeline.keep=0.5 --name half\n"
                               "  wmtp-host run experiments/rho1.toml --resume\n"
                               "  wmtp-host run experiments/sweep.toml --jobs 2\n"
                               "  wmtp-host run experiments/baseline.toml experiments/rho1.toml\n"
                               "  torchrun --no-python --nproc-per-node 2 wmtp-host run experiments/rho1.toml\n",
                               [options](const GlobalOptions& globals) { return run(*options, globals); });
  run_command.add_option("FILE", options->files, "the experiment's TOML file; several run as members of one sweep")
      ->required();
  run_command.add_option("--set", options->request.overrides, "another value for a key, as in TOML; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  run_command.add_option("--nproc", options->request.nproc, "processes, in place of [parallel] processes")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  run_command.add_option("--name", options->request.name, "another name for the run")->type_name("NAME");
  run_command.add_flag("--resume", options->request.resume,
                       "go on with the newest unfinished run of this configuration");
  run_command
      .add_option(
          "--jobs", options->jobs,
          "members of a [sweep], or files, that run beside each other and share the cores (1); how many a machine can "
          "hold is no part of the experiment")
      ->type_name("K")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  run_command.add_flag("--dry-run", options->dry_run,
                       "check, print the resolved experiment, tell the stages; run nothing");
  run_command.add_option("--sources", options->request.sources)->group("");
  run_command.add_flag("--member", options->member)->group("");
}

}  // namespace wmtp
