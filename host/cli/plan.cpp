// `plan FILE`: estimates an experiment without training: stages, parameters, memory on each rank, tokens, disk.
#include <iostream>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/study.hpp"
#include "comm/rank_environment.hpp"
#include "experiment/load/load.hpp"
#include "experiment/load/sweep.hpp"
#include "experiment/toml/toml_source.hpp"
#include "job/device_peak.hpp"
#include "job/input_checks.hpp"
#include "job/job_request.hpp"
#include "job/stages.hpp"
#include "log/run_folders.hpp"
#include "plan/machine_fit.hpp"
#include "plan/measured_rate.hpp"
#include "plan/plan_report.hpp"
#include "plan/rent.hpp"
#include "plugins/catalog.hpp"
#include "study/read_study.hpp"

namespace wmtp {
namespace {

struct Options {
  std::string file;
  std::vector<std::string> overrides;
  int64_t nproc = 0;  ///< 0: not given
  int64_t nodes = 1;
  std::vector<int64_t> gpus;    ///< on each host
  std::vector<std::string> on;  ///< names of hardware
  std::string like;             ///< a run; "": not given
  double network = 0;           ///< Gbit/s; 0: not given
  std::string fit;              ///< "80GiB"; "": not given
  bool json = false;
};

/// Of a GPU's memory, what --fit leaves to the CUDA context and NCCL's buffers. On 8 H100, an all-to-all of NCCL raises
/// them from 1.06 to 4.34 GB (NVIDIA/nccl, issue 1685), 5% of such a card.
constexpr double free_share = 0.05;

int64_t parsed_bytes(const std::string& text) {
  constexpr std::pair<const char*, double> units[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"GB", 1e9}};
  for (const auto& [unit, bytes] : units) {
    if (!text.ends_with(unit)) continue;
    const auto number = parsed_number<double>(text.substr(0, text.size() - std::string(unit).size()));
    if (number && *number > 0 && *number * bytes < 1e18) return int64_t(*number * bytes);
  }
  throw Error(ExitStatus::usage,
              "--fit: found " + printable(text) + ", expected a number and its unit, GiB, GB or MiB: --fit 80GiB");
}

int64_t usable_bytes(const std::string& memory, bool on_cuda) {
  return int64_t(double(parsed_bytes(memory)) * (on_cuda ? 1 - free_share : 1));
}

/// Error(usage) if one sequence does not fit.
PlannedFit fit_into(const std::string& memory, const Experiment& experiment, const ExperimentPlan& plan,
                    const PlanStep& plan_step) {
  const StepRequest& request = plan.variants.front().request;
  const int64_t bytes = usable_bytes(memory, request.on_cuda);
  const std::string limit = memory + (request.on_cuda ? printed(" less %.0f%%", 100 * free_share) : "");
  if (const auto largest = largest_batch(plan_step, request, bytes))
    return {limit, *largest, largest_batch_of_same_tokens(plan_step, request, bytes)};
  const auto changes = changes_that_fit(plan_step, plan, bytes);
  std::string advice = std::string("no strategy fits, even with full checkpointing, activation_offload = true") +
                       (request.on_cuda ? " and cpu_offload" : "") +
                       "; use more ranks, lower train.sequence_length or the model's size";
  if (!changes.empty()) {
    advice = "it fits with ";
    for (size_t i = 0; i < changes.size(); ++i) advice += (i > 0 ? ", or with " : "") + changes[i];
  }
  const PlannedBatch one = plan_batch(plan_step, request, 1, request.gradient_accumulation);
  throw Error(ExitStatus::usage, experiment.file.string() + ": train.batch_size = 1 takes " +
                                     human_bytes(one.needed()) + " per rank (in " + one.phase + ", " +
                                     largest_part(one.peak) + "), more than --fit " + limit + "; " + advice);
}

/// Of Ethernet's bits, those that are left for data after the headers of Ethernet, IP and TCP, and acknowledgements.
constexpr double share_of_data = 0.94;

/// Error(usage) if options contradict each other.
void check_options(const Options& options) {
  const auto refuse = [](const std::string& text) { throw Error(ExitStatus::usage, text); };
  const std::string hosts = counted(options.nodes, "host");
  if (options.like.empty() && options.network > 0)
    refuse("--network: found no --like, which names a run that shows the speed of a rank");
  if (!options.like.empty() && options.nodes > 1 && options.network == 0)
    refuse("--like: found " + hosts + " without --network, the speed of the links between them in Gbit/s");
  if (options.nodes == 1 && options.network > 0)
    refuse("--network: found " + hosts + ", which needs none; add --nodes");
  if (options.gpus.size() > 1 && options.on.empty())
    refuse("--gpus: found several numbers without --on, which names the cards to compare: " + known_hardware());
  if ((options.gpus.size() > 1 || options.on.size() > 1) && !options.fit.empty())
    refuse("--fit: found several numbers of GPUs or cards, for each of which the table has the largest batch");
}

PlannedCluster plan_cluster(const Options& options, const Experiment& experiment, const ExperimentPlan& plan,
                            const std::optional<MeasuredRate>& like, const PlanStep& plan_step) {
  PlannedCluster cluster;
  cluster.hosts = options.nodes;
  std::optional<Rates>& rates = cluster.rates;
  const Precision precision = experiment.parallel.precision;
  if (!options.on.empty()) {
    cluster.hardware = &find_hardware(options.on.front());
    rates = rates_on(*cluster.hardware, precision);
    cluster.peak = stated_peak(cluster.hardware->device, precision);
  } else if (like) {
    cluster.like = like;
    cluster.gigabits = options.network;
    rates = Rates{.operations = like->operations, .exchange_seconds = like->exchange_seconds};
    if (options.nodes > 1) {
      const double ranks = double(experiment.parallel.processes / options.nodes);
      rates->network = share_of_data * options.network * 1e9 / 8 / ranks;
      const double cores = double(usable_cores()) / double(like->ranks);  // of a rank
      rates->socket_seconds = cluster.socket_seconds = measured_socket_seconds() / cores;
    }
  }
  if (cluster.hardware) cluster.memory = int64_t(cluster.hardware->memory);
  if (!options.fit.empty()) cluster.memory = usable_bytes(options.fit, !options.on.empty() || !options.gpus.empty());
  cluster.divided = divided_layouts(experiment, plan, plan_step, rates);
  cluster.costs = step_costs(plan_step, plan, cluster.divided, rates, cluster.peak, cluster.memory);
  if (cluster.memory) cluster.best = recommended(cluster.costs);
  return cluster;
}

/// --set, and the settings that other options stand for.
std::vector<std::string> overrides_of(const Options& options) {
  std::vector<std::string> overrides = options.overrides;
  const int64_t ranks = options.gpus.empty() ? options.nproc : options.nodes * options.gpus.front();
  if (ranks > 0) overrides.push_back("parallel.processes=" + std::to_string(ranks));
  if (!options.gpus.empty() || !options.on.empty()) overrides.emplace_back("parallel.device=cuda");
  if (!options.like.empty()) overrides.emplace_back("parallel.device=cpu");
  return overrides;
}

/// An experiment that was read and checked, with its plan on the given hosts.
struct CheckedPlan {
  CheckedPlan(const Options& options, const Catalog& catalog, const GlobalOptions& globals)
      : overrides(overrides_of(options)),
        experiment(read(options, catalog)),
        database(globals.database_or(experiment.log.database)),
        hashes(catalog, database),
        planner(catalog, database),
        plan_step(planner.steps_of(experiment)) {
    check_inputs(experiment, experiment.parallel.processes, catalog, hashes, database);
    const bool is_one_card = options.on.size() == 1;
    const std::optional<Rates> rates =
        is_one_card ? rates_on(find_hardware(options.on.front()), experiment.parallel.precision) : std::nullopt;
    plan = plan_experiment(experiment, catalog, cache_folder_path(database), plan_step, options.nodes, rates);
  }

  Experiment read(const Options& options, const Catalog& catalog) {
    LoadRequest request = load_request(catalog, options.file, overrides);
    request.texts = &texts;
    const Experiment as_read = load_experiment(request);
    return with_host_shard_groups(as_read, ranks_per_host(as_read, options.nodes), as_read.parallel.processes);
  }

  SourceTexts texts;
  const std::vector<std::string> overrides;
  const Experiment experiment;
  const std::filesystem::path database;
  ExperimentHashes hashes;
  StepPlanner planner;
  const PlanStep plan_step;
  ExperimentPlan plan;
};

/// Rented hosts have at most this many GPUs.
constexpr int64_t most_gpus_of_a_host = 8;

/// The options with one of the numbers of --gpus; 0: none was given. Without --nodes, 16 are two hosts of 8.
Options with_gpus(Options options, int64_t gpus) {
  options.gpus.clear();
  if (options.nodes == 1 && gpus > most_gpus_of_a_host && gpus % most_gpus_of_a_host == 0) {
    options.nodes = gpus / most_gpus_of_a_host;
    gpus = most_gpus_of_a_host;
  }
  if (gpus > 0) options.gpus.push_back(gpus);
  return options;
}

void log_warnings(const Experiment& experiment, const std::filesystem::path& database) {
  for (const std::string& warning : input_warnings(experiment, database)) log_warning(warning);
}

/// A row for each number of GPUs and card.
int compare_rents(const Options& options, const GlobalOptions& globals) {
  const Catalog catalog(globals.plugin_folders);
  std::vector<const Hardware*> cards;
  for (const std::string& name : options.on) cards.push_back(&find_hardware(name));
  std::vector<RentRow> rows;
  std::string name;
  int64_t batch_size = 1;
  bool grows = false;
  for (const int64_t gpus : options.gpus.empty() ? std::vector<int64_t>{0} : options.gpus) {
    const CheckedPlan one(with_gpus(options, gpus), catalog, globals);
    if (rows.empty()) log_warnings(one.experiment, one.database);
    name = one.experiment.name;
    batch_size = one.experiment.train.batch_size;
    grows = options.gpus.size() > 1 && one.experiment.train.global_batch_size == 0;
    const auto divided = divided_layouts(one.experiment, one.plan, one.plan_step);
    for (const Hardware* card : cards)
      rows.push_back(rent_row(one.plan_step, one.plan, divided, *card, one.experiment.parallel.precision));
  }
  (options.json ? print_rent_json : print_rent_text)(std::cout, name, batch_size, rows);
  if (grows && !options.json)
    std::cout
        << "Without train.global_batch_size the tokens of a step grow with the GPUs; to compare equal steps, state "
           "the\nsequences of a step over all of them: --set train.global_batch_size=N\n";
  return 0;
}

/// With the seconds of a step, if the cluster's rates are known.
void add_seconds(PlannedBatch& batch, const CheckedPlan& one, const PlannedCluster& cluster) {
  if (!cluster.rates) return;
  StepRequest request = one.plan.variants.front().request;
  request.sequences_per_rank = batch.batch_size;
  request.gradient_accumulation = batch.gradient_accumulation;
  batch.seconds = step_time(one.plan_step, request, *cluster.rates, cluster.peak).seconds;
}

/// Without those of the experiment: the values of one member, which the plan may be of.
std::vector<std::string> overrides_of_sweep(std::vector<std::string> overrides) {
  std::erase_if(overrides, [](const std::string& one) { return !(overridden_key(one) + ".").starts_with("sweep."); });
  return overrides;
}

/// Error(usage) for an option that applies to one experiment.
int plan_study_of(const Options& options, const GlobalOptions& globals) {
  const Options none;
  if (!options.overrides.empty() || options.nproc != none.nproc || options.nodes != none.nodes ||
      !options.gpus.empty() || !options.on.empty() || !options.like.empty() || !options.fit.empty())
    throw Error(ExitStatus::usage, options.file +
                                       ": a study is planned as its file states; found an option that "
                                       "applies to one experiment, plan its members one by one with it");
  return plan_study(options.file, options.json, globals);
}

int plan(const Options& given, const GlobalOptions& globals) {
  check_thread_count();
  check_options(given);
  if (SourceTexts texts; is_study(given.file, texts)) return plan_study_of(given, globals);
  if (given.gpus.size() > 1 || given.on.size() > 1) return compare_rents(given, globals);
  const Options options = given.gpus.empty() ? given : with_gpus(given, given.gpus.front());
  const Catalog catalog(globals.plugin_folders);
  CheckedPlan one(options, catalog, globals);
  const Experiment& experiment = one.experiment;
  log_warnings(experiment, one.database);
  const std::vector<RunPlan> stages = plan_stages(experiment, one.hashes, ResumeRule());
  for (const RunPlan& stage : stages) {
    if (stage.reused_run != 0) continue;
    const Experiment& other = experiment_at(experiment, stage.path);
    check_inputs(other, num_processes(other, options.nproc), catalog, one.hashes, one.database);
    log_warnings(other, one.database);
  }
  Machine machine = this_machine(experiment);
  machine.hosts = options.nodes;
  std::optional<MeasuredRate> like;
  if (!options.like.empty()) like = measured_rate(one.database, options.like, experiment.parallel.precision, catalog);
  const bool is_for_cluster = !options.gpus.empty() || !options.on.empty();
  PlanReport report{experiment,
                    one.plan,
                    stages,
                    read_sweep(options.file, overrides_of_sweep(one.overrides), one.texts).size(),
                    is_for_cluster ? "" : misfit(local_ranks_to_fit(experiment, one.plan, machine), machine),
                    std::nullopt,
                    std::nullopt};
  if (!options.fit.empty()) report.fit = fit_into(options.fit, experiment, one.plan, one.plan_step);
  if (is_for_cluster || like) report.cluster = plan_cluster(options, experiment, one.plan, like, one.plan_step);
  if (report.fit && report.cluster) {
    add_seconds(report.fit->largest, one, *report.cluster);
    if (report.fit->same_tokens) add_seconds(*report.fit->same_tokens, one, *report.cluster);
  }
  if (options.json)
    print_json(std::cout, report);
  else
    print_text(std::cout, report);
  return 0;
}

}  // namespace

void add_plan(CommandLine& line) {
  auto [command, options] = line.add(
      "plan",
      "estimate the stages, parameters, memory, tokens and disk space of an experiment\n\n"
      "Trains nothing: the step runs on tensors without values, for a model of any size in seconds. Of a study, "
      "the\nhours of its runs and the smallest difference that its seeds show; the plan is stored in the log.\n\n"
      "examples:\n"
      "  wmtp-host plan experiments/rho1.toml --nproc 8 --set parallel.precision=bf16\n"
      "  wmtp-host plan experiments/rho1.toml --fit 80GiB\n"
      "  wmtp-host plan experiments/rho1.toml --nodes 8 --gpus 8 --on h100\n"
      "  wmtp-host plan experiments/rho1.toml --gpus 1,2,4,8 --on h100,h200,a100-80gb\n"
      "  wmtp-host plan experiments/rho1.toml --nodes 2 --nproc 4 --like rho1 --network 1\n"
      "  wmtp-host plan experiments/lora.toml --json\n"
      "  wmtp-host plan experiments/study/text.toml\n",
      plan);
  const CLI::Range count(int64_t{1}, int64_t{4096});
  const auto one_word = [](CLI::Option* option) { option->allow_extra_args(false); };
  add_option(command, "FILE", options.file, "experiment or study (TOML)", required);
  add_set(command, options.overrides);
  add_nproc(command, options.nproc);
  add_option(command, "--nodes N", options.nodes, "hosts like this one that share the ranks equally (1)", count);
  add_option(command, "--fit MEMORY", options.fit,
             "find the largest train.batch_size that fits into this memory per rank");
  add_option(command, "--gpus N", options.gpus,
             "compare the cost of a step with so many GPUs on each host, a rank for each (without --nodes, 16 are 2 "
             "hosts of 8); comma-separated: one table",
             comma_separated, one_word, count)
      ->excludes("--nproc");
  add_option(command, "--on NAME", options.on,
             "compare the cost of a step on this hardware, or several: " + known_hardware(), comma_separated, one_word);
  add_option(command, "--like RUN", options.like,
             "compare the cost of a step on CPUs at the speed of this finished run (id or name) on one host")
      ->excludes("--on")
      ->excludes("--gpus");
  add_option(command, "--network GBIT", options.network, "with --like: speed of each host's link in Gbit/s",
             CLI::PositiveNumber);
  command.add_flag("--json", options.json, "print JSON, with every phase of every strategy");
}

}  // namespace wmtp
