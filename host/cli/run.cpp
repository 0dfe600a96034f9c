// `run FILE`: an experiment, first the stages it needs.
//
// Alone       1. the experiment is loaded and checked  2. each stage without a finished run of its hash is started as a
//             job of its own, like `run STAGE`  3. the experiment's ranks are started and watched
//             4. a row that rank 0 has not closed, however it ended, is closed here
// With [sweep], or several files, all members are loaded and checked, the stages that they need run one after another,
//             and then each is a call of its own of this program, with --member
// In a job    (our launcher's, torchrun's or srun's) this process is one rank and goes into the engine.
// A crash of the launcher leaves no rank behind, and a row that its heartbeat shows as lost.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/run_options.hpp"
#include "cli/sweep.hpp"
#include "core/config/load.hpp"
#include "core/config/sweep.hpp"
#include "core/experiment/canonical.hpp"
#include "core/job/input_checks.hpp"
#include "core/job/job.hpp"
#include "core/job/launcher.hpp"
#include "core/job/resume.hpp"
#include "core/job/stages.hpp"
#include "core/plan/fit.hpp"
#include "core/plugins/catalog.hpp"
#include "core/rendezvous/refusal.hpp"
#include "core/runlog/run_log.hpp"
#include "io/scratch_folder.hpp"
#include "process/child_process.hpp"

namespace wmtp {
namespace {

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
  RunCommand(const RunOptions& options, const GlobalOptions& globals, SourceTexts& texts)
      : options_(options),
        globals_(globals),
        texts_(texts),
        catalog_(globals.plugin_folders),
        job_(make_job(options, globals, catalog_, texts)),
        hashes_(catalog_, job_.database) {}

  int as_rank(const RankEnvironment& environment) {
    if (!environment.own_launcher) agree_on_processes(options_, environment.world_size, job_.experiment);
    return run_rank(job_, environment);
  }

  const Experiment& experiment() const { return job_.experiment; }
  const std::filesystem::path& database() const { return job_.database; }
  const std::string& config_hash() { return hashes_.of(job_.experiment); }

  /// What can be refused before a rank or a stage is started: the experiment's inputs, ranks, memory and cores.
  void check() { check(job_.experiment, job_.experiment.parallel.processes); }

  int dry() {
    check();
    std::cout << to_toml(job_.experiment);
    Stages none;
    run_stages(job_.experiment, options_.held_out, true, none);
    return 0;
  }

  int alone() {
    check();
    const bool goes_on = options_.resume && has_resume_point(job_.experiment);
    if (options_.resume && !goes_on && !has_begun_stage(job_.experiment))
      find_resume_point(hashes_.of(job_.experiment), job_.database, tell);  // throws: there is none
    Stages stages;
    const ExitStatus status = run_stages(job_.experiment, options_.held_out, false, stages);
    if (status != ExitStatus::done) return static_cast<int>(status);
    if (options_.resume && !goes_on) log_info(options_.file + " itself had not begun, so it starts at step 0");
    return static_cast<int>(
        launch(own_call(goes_on), stages, options_.held_out, job_.experiment, job_.experiment.parallel.processes));
  }

  /// Those that the log lacks. Says nothing of the others.
  int run_missing_stages() {
    tell_reused_ = false;
    Stages stages;
    return static_cast<int>(run_stages(job_.experiment, options_.held_out, false, stages));
  }

  /// What a process of its own is given to do alone() what this one would.
  std::vector<std::string> member_call(bool resume) const {
    std::vector<std::string> arguments = own_call(resume);
    arguments.push_back("--member");
    add_common(arguments);
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
    const int64_t processes = options_.nproc > 0 ? options_.nproc : experiment.parallel.processes;
    check(experiment, processes);
    Stages below;
    const ExitStatus inner = run_stages(experiment, held_out, only_tell, below);
    if (inner != ExitStatus::done) return inner;
    if (only_tell) {
      if (told_.insert(stage.config_hash).second)
        log_info(who + file + " would run first, the log has no finished run of it");
      return ExitStatus::done;
    }
    const bool resumes = options_.resume || options_.resume_stages;
    const bool goes_on = resumes && has_resume_point(experiment);
    log_info(who + file +
             (goes_on ? " goes on first, from its last checkpoint"
              : resumes && was_begun(stage.config_hash, job_.database)
                  ? " starts anew: its unfinished run has no checkpoint"
                  : " runs first, the log has no finished run of it"));
    std::vector<std::string> call{"run", experiment.file.string()};
    if (goes_on) call.push_back("--resume");
    const ExitStatus status = launch(std::move(call), below, held_out, experiment, processes);
    if (status != ExitStatus::done) {
      log_error(who + file + " was not finished, so " + options_.file + " was not started");
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

  ExitStatus launch(std::vector<std::string> arguments, const Stages& stages, const std::vector<std::string>& held_out,
                    const Experiment& experiment, int64_t processes) {
    const RunIdFile id_file;
    if (!stages.empty()) arguments.insert(arguments.end(), {"--stages", to_text(stages)});
    for (const auto& pattern : held_out) arguments.insert(arguments.end(), {"--held-out", pattern});
    if (experiment.data.hold_out_problems) arguments.push_back("--hold-out-problems");
    if (experiment.data.hold_out_share > 0)
      arguments.insert(arguments.end(), {"--hold-out-share", printed("%.17g", experiment.data.hold_out_share)});
    add_common(arguments);
    LaunchRequest request;
    request.program = own_program();
    request.arguments = std::move(arguments);
    request.environment[run_id_file_variable] = id_file.path();
    request.num_ranks = static_cast<int>(processes);
    request.port = wanted_master_port();
    const LaunchResult result = launch_ranks(request);
    if (result.status != ExitStatus::done && id_file.id() > 0) close_row(id_file.id(), result);
    return result.status;
  }

  /// This very experiment, in another process.
  std::vector<std::string> own_call(bool resume) const {
    std::vector<std::string> arguments{"run", options_.file};
    for (const auto& text : options_.overrides) arguments.insert(arguments.end(), {"--set", text});
    if (!options_.name.empty()) arguments.insert(arguments.end(), {"--name", options_.name});
    if (resume) arguments.push_back("--resume");
    return arguments;
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

  /// What goes to every process that is started from here, of a stage too.
  void add_common(std::vector<std::string>& arguments) const {
    if (options_.nproc > 0) arguments.insert(arguments.end(), {"--nproc", std::to_string(options_.nproc)});
    arguments.insert(arguments.end(), {"--db", job_.database.string(), "--sources", texts_.file().string()});
    for (const auto& folder : globals_.plugin_folders)
      arguments.insert(arguments.end(), {"--plugin-dir", folder.string()});
    if (globals_.quiet) arguments.push_back("--quiet");
    if (globals_.no_color) arguments.push_back("--no-color");
  }

  void close_row(int64_t run_id, const LaunchResult& result) {
    try {
      close_lost_run(job_.database, run_id, result.status, result.reason);
    } catch (const Error& error) {  // the ranks' exit code says more than this does
      log_warning("run " + std::to_string(run_id) + " could not be closed in the log: " + error.what());
    }
  }

  const RunOptions& options_;
  const GlobalOptions& globals_;
  SourceTexts& texts_;
  Catalog catalog_;
  Job job_;
  ExperimentHashes hashes_;
  std::set<std::string> told_;  ///< stages of which a dry run has spoken
  bool tell_reused_ = true;
};

/// A member of a sweep, or one file of several, with the options that its launcher hands on.
struct Member {
  Member(const RunOptions& all, const std::string& file, const SweepMember& member, const GlobalOptions& globals,
         SourceTexts& texts)
      : options(all) {
    options.file = file;
    options.overrides.insert(options.overrides.end(), member.overrides.begin(), member.overrides.end());
    options.name_suffix = member.suffix;
    options.resume_stages = all.resume;
    options.resume = false;  // only of those that were begun
    if (all.files.size() > 1) what = std::filesystem::path(file).filename().string();
    for (const std::string& text : member.overrides) what += (what.empty() ? "" : " ") + text;
    try {
      run.emplace(options, globals, texts);
    } catch (const Error& error) {
      if (member.overrides.empty()) throw;
      throw Error(error.status(), "a member of [sweep] (" + what + "):\n" + error.what());
    }
    options.name = run->experiment().name;
  }
  RunOptions options;
  std::string what;
  std::optional<RunCommand> run;
};

using Sweeps = std::vector<std::vector<SweepMember>>;  ///< of each file; of one without [sweep] none

/// Every member of every file is checked before one runs.
std::list<Member> load_members(const RunOptions& options, const Sweeps& sweeps, const GlobalOptions& globals,
                               SourceTexts& texts) {
  std::list<Member> members;
  for (size_t i = 0; i < sweeps.size(); ++i) {
    for (const SweepMember& one : sweeps[i]) members.emplace_back(options, options.files[i], one, globals, texts);
    if (sweeps[i].empty()) members.emplace_back(options, options.files[i], SweepMember(), globals, texts);
  }
  for (const Member& member : members)
    if (member.run->database() != members.front().run->database())
      throw Error(ExitStatus::usage, member.options.file + ": its log is " + member.run->database().string() +
                                         ", that of " + members.front().options.file + " is " +
                                         members.front().run->database().string() +
                                         "; name one for all with --db, or run them by themselves");
  return members;
}

int run_members(const RunOptions& options, const Sweeps& sweeps, const GlobalOptions& globals, SourceTexts& texts) {
  std::list<Member> members = load_members(options, sweeps, globals, texts);
  std::vector<SweepRun> runs;
  for (Member& member : members) {
    const Experiment& experiment = member.run->experiment();
    member.run->check();
    runs.push_back({member.what, member.options.name, experiment.seed, experiment.parallel.processes,
                    member.run->config_hash(), [&member] { return member.run->run_missing_stages(); },
                    [&member](bool resume) { return member.run->member_call(resume); }});
  }
  return run_sweep(runs, {members.front().run->database(), size_t(std::max<int64_t>(options.jobs, 1)), options.resume,
                          options.dry_run});
}

/// Whether the line stands for more than one run. Error(usage) for what goes with many alone, or with one alone.
bool stands_for_many(const RunOptions& options, const Sweeps& sweeps, bool in_a_job) {
  const std::string& first = options.files.front();
  const bool several = options.files.size() > 1, many = several || !sweeps.front().empty();
  if (many && in_a_job)
    throw Error(ExitStatus::usage, (several ? "several files start" : first + ": a [sweep] starts") +
                                       " ranks of its own; run it without a launcher");
  if (several && !options.name.empty())
    throw Error(ExitStatus::usage, "--name goes with one FILE; the files say their runs' names themselves");
  if (!many && options.jobs > 0)
    throw Error(ExitStatus::usage,
                "--jobs goes with several files or a [sweep], and " + first + " has none: it is one run");
  return many;
}

int run_as(const std::optional<RankEnvironment>& environment, const RunOptions& given, const GlobalOptions& globals) {
  check_thread_count();
  const bool is_own_rank = environment && environment->own_launcher;  // of one member
  SourceTexts texts(given.sources);
  if (!given.member && !is_own_rank) {
    Sweeps sweeps;
    for (const std::string& file : given.files) sweeps.push_back(read_sweep(file, texts));
    if (stands_for_many(given, sweeps, environment.has_value())) return run_members(given, sweeps, globals, texts);
  }
  RunOptions options = given;
  options.file = given.files.front();
  RunCommand run(options, globals, texts);
  // After this line the experiment is a value: neither the file nor the line is read again, here and in what this
  // starts.
  if (options.dry_run) return run.dry();
  return environment ? run.as_rank(*environment) : run.alone();
}

int run(const RunOptions& given, const GlobalOptions& globals) {
  const auto environment = rank_environment();
  try {
    return run_as(environment, given, globals);
  } catch (const Error& error) {
    if (environment && !given.dry_run) tell_refusal(*environment, error);
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
  run_command.add_option("--set", options->overrides, "another value for a key, as in TOML; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  run_command.add_option("--nproc", options->nproc, "processes, in place of [parallel] processes")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  run_command.add_option("--name", options->name, "another name for the run")->type_name("NAME");
  run_command.add_flag("--resume", options->resume, "go on with the newest unfinished run of this configuration");
  run_command
      .add_option(
          "--jobs", options->jobs,
          "members of a [sweep], or files, that run beside each other and share the cores (1); how many a machine can "
          "hold is no part of the experiment")
      ->type_name("K")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  run_command.add_flag("--dry-run", options->dry_run,
                       "check, print the resolved experiment, tell the stages; run nothing");
  run_command.add_option("--held-out", options->held_out)->allow_extra_args(false)->group("");
  run_command.add_flag("--hold-out-problems", options->hold_out_problems)->group("");
  run_command.add_option("--hold-out-share", options->hold_out_share)->group("");
  run_command.add_option("--stages", options->stages)->group("");
  run_command.add_option("--sources", options->sources)->group("");
  run_command.add_flag("--member", options->member)->group("");
}

}  // namespace wmtp
