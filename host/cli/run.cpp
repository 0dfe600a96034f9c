// `run FILE`: an experiment, first the stages it needs.
//
// Alone       1. the experiment is loaded and checked  2. each stage without a finished run of its hash is started as a
//             job of its own, like `run STAGE`  3. the experiment's ranks are started and watched
//             4. when rank 0 died, its run's row is closed here
// In a job    (our launcher's, torchrun's or srun's) this process is one rank and goes into the engine.
// A crash of the launcher leaves no rank behind, and a row that its heartbeat shows as lost.
#include <toml++/toml.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/log.hpp"
#include "cli/command.hpp"
#include "dist/launcher.hpp"
#include "experiment/canonical.hpp"
#include "experiment/load.hpp"
#include "log/run_log.hpp"
#include "plugin/catalog.hpp"
#include "run/identity.hpp"
#include "run/job.hpp"

namespace wmtp {
namespace {

struct RunOptions {
  std::string file, name;
  std::vector<std::string> overrides, held_out;
  int64_t nproc = 0;  ///< 0: not given
  bool resume = false, dry_run = false;
};

/// Where rank 0 writes its run's id.
class RunIdFile {
 public:
  RunIdFile() : path_((std::filesystem::temp_directory_path() / "wmtp-run-XXXXXX").string()) {
    const int fd = mkstemp(path_.data());
    if (fd < 0) throw Error(ExitStatus::storage, "cannot make a file in " + path_ + "; set TMPDIR to another folder");
    close(fd);
  }
  ~RunIdFile() { unlink(path_.c_str()); }
  RunIdFile(const RunIdFile&) = delete;
  const std::string& path() const { return path_; }
  /// 0 when the run's row was never made.
  int64_t id() const {
    int64_t id = 0;
    std::ifstream(path_) >> id;
    return id;
  }

 private:
  std::string path_;
};

std::vector<std::string> all_overrides(const RunOptions& options) {
  auto overrides = options.overrides;
  if (options.nproc > 0) overrides.push_back("parallel.processes=" + std::to_string(options.nproc));
  // JSON's strings are TOML's basic strings.
  if (!options.name.empty()) overrides.push_back("name=" + nlohmann::json(options.name).dump());
  return overrides;
}

bool writes_processes(const std::string& text) {
  const auto table = toml::parse(text);
  return static_cast<bool>(table["parallel"]["processes"]);
}

/// A foreign launcher's number of ranks against what the user wrote. [after the experiment is checked]
void agree_on_processes(const RunOptions& options, int64_t world_size, Experiment& experiment) {
  bool written = options.nproc > 0 || writes_processes(experiment.source);
  for (const auto& text : options.overrides) written = written || writes_processes(text);
  if (written && experiment.parallel.processes != world_size) {
    throw Error(ExitStatus::usage,
                "the launcher started " + std::to_string(world_size) + " processes (WORLD_SIZE), but " +
                    (options.nproc > 0 ? "--nproc" : "processes in [parallel]") + " is " +
                    std::to_string(experiment.parallel.processes) + "; make them equal, or leave the latter out");
  }
  experiment.parallel.processes = world_size;
}

class Run {
 public:
  Run(const RunOptions& options, const GlobalOptions& globals)
      : options_(options), globals_(globals), catalog_(globals.plugin_folders) {
    const auto describe = [this](const std::string& kind, const std::string& name) {
      return catalog_.describe(kind, name);
    };
    job_.experiment = load_experiment({options.file, all_overrides(options), describe, options.held_out});
    job_.database = globals.database_or(job_.experiment.log.database);
    job_.resume = options.resume;
    job_.quiet = globals.quiet;
    job_.color = !globals.no_color && stderr_takes_color();
    job_.plugin_folders = globals.plugin_folders;
  }

  int as_rank(const RankEnvironment& environment) {
    if (!environment.own_launcher) agree_on_processes(options_, environment.world_size, job_.experiment);
    return run_rank(job_, environment);
  }

  int dry() {
    std::cout << to_toml(job_.experiment);
    run_stages(job_.experiment, options_.held_out, true);
    return 0;
  }

  int alone() {
    const ExitStatus stages = run_stages(job_.experiment, options_.held_out, false);
    if (stages != ExitStatus::done) return static_cast<int>(stages);
    std::vector<std::string> arguments{"run", options_.file};
    for (const auto& text : options_.overrides) arguments.insert(arguments.end(), {"--set", text});
    if (!options_.name.empty()) arguments.insert(arguments.end(), {"--name", options_.name});
    if (options_.resume) arguments.push_back("--resume");
    return static_cast<int>(launch(std::move(arguments), options_.held_out, job_.experiment.parallel.processes));
  }

 private:
  /// Starts what the log lacks, deepest first; with `only_tell` says it and starts nothing.
  ExitStatus run_stages(const Experiment& experiment, std::vector<std::string> held_out, bool only_tell) {
    if (!experiment.stage("reference")) return ExitStatus::done;
    const Experiment& stage = *experiment.stage("reference");
    for (const auto& pattern : experiment.validation.files) held_out.push_back(experiment.resolve(pattern).string());
    const std::string file = stage.file.filename().string();
    if (const auto run = reusable_run(experiment_hash(stage, catalog_, job_.database), job_.database)) {
      log_info("reference: run " + std::to_string(run->id) + " of " + file + " is reused");
      return ExitStatus::done;
    }
    const ExitStatus inner = run_stages(stage, held_out, only_tell);
    if (inner != ExitStatus::done) return inner;
    log_info("reference: " + file + (only_tell ? " would run" : " runs") + " first, the log has no finished run of it");
    if (only_tell) return ExitStatus::done;
    const int64_t processes = options_.nproc > 0 ? options_.nproc : stage.parallel.processes;
    const ExitStatus status = launch({"run", stage.file.string()}, held_out, processes);
    if (status != ExitStatus::done)
      log_error("reference: " + file + " was not finished, so " + options_.file + " was not started");
    return status;
  }

  ExitStatus launch(std::vector<std::string> arguments, const std::vector<std::string>& held_out, int64_t processes) {
    const RunIdFile id_file;
    for (const auto& pattern : held_out) arguments.insert(arguments.end(), {"--held-out", pattern});
    if (options_.nproc > 0) arguments.insert(arguments.end(), {"--nproc", std::to_string(options_.nproc)});
    arguments.insert(arguments.end(), {"--db", job_.database.string()});
    for (const auto& folder : globals_.plugin_folders) {
      arguments.insert(arguments.end(), {"--plugin-dir", folder.string()});
    }
    if (globals_.quiet) arguments.push_back("--quiet");
    if (globals_.no_color) arguments.push_back("--no-color");
    LaunchRequest request;
    request.program = std::filesystem::read_symlink("/proc/self/exe");
    request.arguments = std::move(arguments);
    request.environment[run_id_file_variable] = id_file.path();
    request.num_ranks = static_cast<int>(processes);
    request.port = wanted_master_port();
    const LaunchResult result = launch_ranks(request);
    if (result.rank0_died && id_file.id() > 0) close_row(id_file.id(), result);
    return result.status;
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
  Catalog catalog_;
  Job job_;
};

int run(const RunOptions& options, const GlobalOptions& globals) {
  const auto environment = rank_environment();
  Run run(options, globals);
  // After this line the experiment is a value: neither the file nor the line is read again in this process.
  if (options.dry_run) return run.dry();
  return environment ? run.as_rank(*environment) : run.alone();
}

}  // namespace

void add_run(CommandLine& line) {
  const auto options = std::make_shared<RunOptions>();
  auto& run_command = line.add("run",
                               "run an experiment, first the stages it needs\n\n"
                               "examples:\n"
                               "  wmtp-host run experiments/rho1.toml\n"
                               "  wmtp-host run experiments/rho1.toml --set pipeline.keep=0.5 --name half\n"
                               "  wmtp-host run experiments/rho1.toml --resume\n"
                               "  torchrun --no-python --nproc-per-node 2 wmtp-host run experiments/rho1.toml\n",
                               [options](const GlobalOptions& globals) { return run(*options, globals); });
  run_command.add_option("FILE", options->file, "the experiment's TOML file")->required();
  run_command.add_option("--set", options->overrides, "another value for a key, as in TOML; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  run_command.add_option("--nproc", options->nproc, "processes, in place of [parallel] processes")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  run_command.add_option("--name", options->name, "another name for the run")->type_name("NAME");
  run_command.add_flag("--resume", options->resume, "go on with the newest unfinished run of this configuration");
  run_command.add_flag("--dry-run", options->dry_run,
                       "check, print the resolved experiment, tell the stages; run nothing");
  run_command.add_option("--held-out", options->held_out)->allow_extra_args(false)->group("");
}

}  // namespace wmtp
