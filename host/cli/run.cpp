// The command `run`: parses options and chooses between one run (launch/run_launcher.hpp), a sweep
// (launch/sweep_run.hpp) and a rank: in a job of torchrun, srun or mpirun this process becomes wmtp-engine (exec).
#include <iostream>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "comm/rank_environment.hpp"
#include "comm/refusal.hpp"
#include "experiment/canonical.hpp"
#include "experiment/toml/toml_source.hpp"
#include "job/engine_process.hpp"
#include "launch/end_command.hpp"
#include "launch/launcher_stop_handler.hpp"
#include "launch/run_launcher.hpp"
#include "launch/sweep_run.hpp"
#include "report/compare.hpp"
#include "report/table.hpp"

namespace wmtp {
namespace {

struct Options {
  std::vector<std::string> files;
  JobRequest request;  ///< for the file to run
  int64_t jobs = 0;    ///< 0: not given
  bool dry_run = false;
  std::string resume;  ///< "" without the option, "true" without a value
  std::optional<int64_t> nodes, node_rank;
  std::string rendezvous;
  std::string end_command;
  std::string member;  ///< in the process of a sweep member: its request, as text
};

/// From --nodes, --node-rank and --rendezvous; nullopt without them.
std::optional<JobNode> node_of(const Options& options) {
  if (!options.nodes && !options.node_rank && options.rendezvous.empty()) return std::nullopt;
  if (!options.nodes || !options.node_rank || options.rendezvous.empty())
    throw Error(ExitStatus::usage, "--nodes, --node-rank and --rendezvous are required together, on every node");
  if (*options.node_rank >= *options.nodes)
    throw Error(ExitStatus::usage, "found --node-rank " + std::to_string(*options.node_rank) + ", wanted 0 to " +
                                       std::to_string(*options.nodes - 1) + ", one for each of --nodes");
  const size_t colon = options.rendezvous.rfind(':');
  const auto port = parsed_number<int>(colon == std::string::npos ? "" : options.rendezvous.substr(colon + 1));
  std::string address = options.rendezvous.substr(0, colon);
  if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);  // IPv6
  if (!port || *port < 1 || *port > 65535 || address.empty())
    throw Error(ExitStatus::usage, "found --rendezvous " + printable(options.rendezvous) +
                                       ", wanted HOST:PORT, an address of node 0 and a free port there");
  return JobNode{*options.nodes, *options.node_rank, address, *port};
}

Resume resume_of(const std::string& given) {
  if (given.empty()) return Resume::no;
  if (given == "true") return Resume::if_begun;
  if (given == "must") return Resume::must;
  throw Error(ExitStatus::usage, "found --resume=" + printable(given) + ", wanted --resume or --resume=must");
}

/// Error(usage) for an option that would replace what the members of a [sweep] set.
void check_options_of_members(const Options& options, const SweepRequest& sweep) {
  const auto refuse_where_set = [&](const std::string& option, const std::string& key) {
    for (const auto& [file, members] : sweep.files)
      for (const SweepMember& member : members)
        for (const std::string& one : member.overrides)
          if (overridden_key(one) == key)
            throw Error(ExitStatus::usage, file + ": its [sweep] varies " + key + ", which " + option +
                                               " would replace; remove " + option);
  };
  if (!options.request.name.empty()) refuse_where_set("--name", "name");
  if (options.request.nproc > 0) refuse_where_set("--nproc", "parallel.processes");
}

/// Whether the command requests more than one run. Error(usage) for options that do not apply.
bool is_sweep(const Options& options, const SweepRequest& sweep, const std::optional<RankEnvironment>& job,
              bool on_nodes) {
  const std::string& first = options.files.front();
  const bool several = options.files.size() > 1, many = several || !sweep.files.front().members.empty();
  const std::string in_job = job ? ", but " + job->launcher + " started this process; run it without a launcher" : "";
  if (many && job)
    throw Error(ExitStatus::usage,
                (several ? "a run of several files" : first + ": a [sweep]") + " starts its own ranks" + in_job);
  if (on_nodes && (many || job))
    throw Error(ExitStatus::usage, many ? "--nodes applies to one run; run the members of a sweep one by one"
                                        : "--nodes starts this host's ranks" + in_job);
  if (several && !options.request.name.empty())
    throw Error(ExitStatus::usage, "--name applies only to a single FILE; with several, each file names its run");
  if (!many && options.jobs > 0)
    throw Error(ExitStatus::usage, "--jobs applies only to several files or a [sweep], and " + first +
                                       " has none: it is one run; remove --jobs");
  return many;
}

int run_and_print(const SweepRequest& request, SourceTexts& texts) {
  const SweepOutcome outcome = run_sweep(request, texts);
  print_table(std::cout, outcome.members, TableFormat::text);
  if (!outcome.incomparable.empty())
    std::cout << join_names(outcome.incomparable) << (outcome.incomparable.size() > 1 ? " are" : " is")
              << " not comparable between all of these runs: " << why_no_difference << '\n';
  for (const std::string& repeated : outcome.repeated) std::cout << repeated << '\n';
  if (!outcome.means.rows.empty()) {
    std::cout << "\nmeans over seeds with standard errors (`wmtp-host runs compare` pairs the seeds)\n";
    print_table(std::cout, outcome.means, TableFormat::text);
  }
  return outcome.exit_code;
}

int run_one(const Options& options, const std::optional<JobNode>& node, SourceTexts& texts) {
  RunLauncher run(options.request, texts);
  run.on_end(options.end_command);
  if (node && !options.dry_run) {
    run.check_fit(node->count);
    return int(run.run_on(*node));
  }
  run.check(node ? node->count : 1);
  if (!options.dry_run) return int(run.run());
  std::cout << to_toml_with_origins(run.job().experiment);
  run.log_runs();
  return 0;
}

int run_as(const std::optional<RankEnvironment>& environment, Options options) {
  check_thread_count();
  if (!options.end_command.empty()) {
    if (environment)
      throw Error(ExitStatus::usage, "--on-end is called by this program's launcher, but " + environment->launcher +
                                         " started this process; remove --on-end");
    options.end_command = checked_end_command(options.end_command).string();
  }
  if (options.request.max_restarts > 0 && (environment || options.nodes))
    throw Error(ExitStatus::usage, "--max-restarts applies to the ranks of one host that this program starts; " +
                                       (environment ? environment->launcher + " starts them here: let it"
                                                    : std::string("with --nodes let the cluster")) +
                                       " start all ranks again with --resume (docs/clusters.md)");
  std::optional<LauncherStopHandler> early;
  if (!environment && !options.dry_run) early.emplace();
  const std::optional<JobNode> node = node_of(options);
  SourceTexts texts(options.request.sources);
  if (options.member.empty()) {
    SweepRequest sweep{options.request, {}, options.end_command, std::max<int64_t>(options.jobs, 1)};
    for (const std::string& file : options.files)
      sweep.files.push_back({file, read_sweep(file, options.request.overrides, texts)});
    if (is_sweep(options, sweep, environment, node.has_value())) {
      check_options_of_members(options, sweep);
      if (!options.dry_run) return run_and_print(sweep, texts);
      log_sweep(sweep, texts);
      return 0;
    }
    options.request.file = options.files.front();
  }
  if (environment && !options.dry_run) become_rank(options.request);
  return run_one(options, node, texts);
}

int run(Options options, const GlobalOptions& globals) {
  if (options.member.empty()) {
    globals.add_to(options.request);
    options.request.resume = resume_of(options.resume);
  } else {
    options.request = job_request_from(options.member);
  }
  const auto environment = rank_environment();
  try {
    return run_as(environment, std::move(options));
  } catch (const Error& error) {
    if (environment && !options.dry_run) publish_refusal(*environment, error);
    throw;
  }
}

}  // namespace

void add_run(CommandLine& line) {
  auto [command, options] = line.add("run",
                                     "run experiments, after the stages they need\n\n"
                                     "examples:\n"
                                     "  wmtp-host run experiments/rho1.toml --set pipeline.keep=0.5 --name half\n"
                                     "  wmtp-host run experiments/rho1.toml --resume\n"
                                     "  wmtp-host run experiments/baseline.toml --set 'sweep.seed=[1, 2]'\n"
                                     "  wmtp-host run experiments/baseline.toml experiments/rho1.toml\n"
                                     "  torchrun --no-python --nproc-per-node 2 wmtp-host run experiments/rho1.toml\n",
                                     run);
  const CLI::Range count(int64_t{1}, int64_t{4096});
  add_option(command, "FILE", options.files, "experiment (TOML); several are members of one sweep", required);
  add_set(command, options.request.overrides);
  add_nproc(command, options.request.nproc);
  add_option(command, "--name NAME", options.request.name, "name of the run, instead of the file's");
  add_option(command, "--nodes N", options.nodes, "number of hosts that run this command", count);
  add_option(command, "--node-rank R", options.node_rank, "number of this host, from 0",
             CLI::Range(int64_t{0}, int64_t{4095}));
  add_option(command, "--rendezvous HOST:PORT", options.rendezvous, "address of host 0, and a free port there");
  command.add_flag(
      "--resume", options.resume,
      "continue the newest unfinished run of this configuration; start if there is none, do nothing if it is finished. "
      "--resume=must: refuse to start");
  add_option(command, "--max-restarts N", options.request.max_restarts,
             "how often to restart all ranks, from the newest checkpoint, after a lost rank or a lack of memory (0)",
             CLI::Range(int64_t{0}, int64_t{1'000'000}));
  add_option(command, "--jobs K", options.jobs, "members of a sweep to run concurrently, sharing the cores (1)", count);
  add_option(command, "--on-end PROGRAM", options.end_command,
             "program to start when the run has ended, finished or not; the environment names the run");
  command.add_flag("--dry-run", options.dry_run,
                   "only check, and print the resolved experiment, where each value comes from, its stages, and what "
                   "--resume would continue");
  command.add_option("--member", options.member)->group("");
}

}  // namespace wmtp
