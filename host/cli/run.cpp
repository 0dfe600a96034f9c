// The command `run`: options, and the choice between one run, a sweep, and a rank of a foreign launcher.
//
// Alone       1. the experiment is loaded and checked  2. each stage without a finished run of its hash is started as a
//             job, like `run STAGE`  3. the experiment's ranks are started and watched  4. a row that rank 0 has not
//             closed, however it ended, is closed here
// [sweep], or several files: all members are loaded and checked, then the stages that they need run one by one, and then
//             each member runs in its own process of this program (--member)
// In a job    of torchrun, srun or mpirun this process is one rank and becomes wmtp-engine (exec).
// A crash of the launcher leaves no rank behind, and a row whose missing heartbeat marks the run as lost.
#include "cli/run.hpp"

#include <memory>

#include "cli/command.hpp"
#include "core/config/load.hpp"
#include "core/job/engine_process.hpp"
#include "core/rendezvous/refusal.hpp"

namespace wmtp {
namespace {

/// Whether the command asks for more than one run. Error(usage) for options that do not fit its kind.
bool is_sweep(const RunOptions& options, const Sweeps& sweeps, bool in_a_job) {
  const std::string& first = options.files.front();
  const bool several = options.files.size() > 1, many = several || !sweeps.front().empty();
  if (many && in_a_job)
    throw Error(ExitStatus::usage, (several ? "a run of several files" : first + ": a [sweep]") +
                                       " starts its own ranks; run it without a launcher");
  if (several && !options.request.name.empty())
    throw Error(ExitStatus::usage, "--name goes with one FILE; with several, each file names its run");
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
    if (is_sweep(options, sweeps, environment.has_value())) return run_sweep(options, sweeps, texts);
  }
  options.request.file = options.files.front();
  if (environment && !options.dry_run) become_rank(options.request);
  RunCommand run(options, texts);
  // After this line the experiment is a value: neither this process nor those that it starts read the file again.
  return options.dry_run ? run.dry_run() : run.run();
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
                               "run experiments, after the stages they need\n\n"
                               "examples:\n"
                               "  wmtp-host run experiments/rho1.toml\n"
                               "  wmtp-host run experiments/rho1.toml --set pipeline.keep=0.5 --name half\n"
                               "  wmtp-host run experiments/rho1.toml --resume\n"
                               "  wmtp-host run experiments/sweep.toml --jobs 2\n"
                               "  wmtp-host run experiments/baseline.toml experiments/rho1.toml\n"
                               "  torchrun --no-python --nproc-per-node 2 wmtp-host run experiments/rho1.toml\n",
                               [options](const GlobalOptions& globals) { return run(*options, globals); });
  run_command.add_option("FILE", options->files, "experiment (TOML); several run as members of one sweep")->required();
  add_set(run_command, options->request.overrides);
  add_nproc(run_command, options->request.nproc);
  run_command.add_option("--name", options->request.name, "name of the run, instead of the file's")->type_name("NAME");
  run_command.add_flag("--resume", options->request.resume, "resume the newest unfinished run of this configuration");
  run_command
      .add_option("--jobs", options->jobs, "members of a sweep that run at the same time and share the cores (1)")
      ->type_name("K")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  run_command.add_flag("--dry-run", options->dry_run, "check, print the resolved experiment, list stages; run nothing");
  run_command.add_option("--sources", options->request.sources)->group("");
  run_command.add_flag("--member", options->member)->group("");
}

}  // namespace wmtp
