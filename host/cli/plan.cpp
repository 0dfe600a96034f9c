// `plan FILE`: estimates an experiment without training: stages, parameters, memory on each rank, tokens, disk.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "core/config/load.hpp"
#include "core/config/sweep.hpp"
#include "core/job/input_checks.hpp"
#include "core/job/stages.hpp"
#include "core/plan/batch_fit.hpp"
#include "core/plan/experiment_plan.hpp"
#include "core/plan/fit.hpp"
#include "core/plan/memory.hpp"
#include "core/plan/step_cost.hpp"
#include "core/plugins/catalog.hpp"
#include "core/rendezvous/rank_environment.hpp"
#include "core/report/table.hpp"

namespace wmtp {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string file;
  std::vector<std::string> overrides;
  int64_t nproc = 0;  ///< 0: not given
  int64_t nodes = 1;
  int64_t gpus = 0;  ///< 0: not given
  std::string on;    ///< name of hardware; "": not given
  std::string fit;   ///< "80GiB"; "": not given
  bool json = false;
};

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

/// The micro-batches that fit into the memory given by --fit.
struct Fit {
  std::string memory;
  PlannedBatch largest;
  std::optional<PlannedBatch> same_tokens;
};

/// "61.1 GiB activations"
std::string largest_part(const MemoryMoment& moment) {
  const MemoryCategory most = largest_category(moment);
  return human_bytes(moment.bytes[size_t(most)]) + " " + to_string(most);
}

/// Error(usage) if one sequence does not fit.
Fit fit_into(const std::string& memory, const Experiment& experiment, const ExperimentPlan& plan) {
  const int64_t bytes = parsed_bytes(memory);
  const MemoryQuestion& question = plan.variants.front().question;
  if (const auto largest = largest_batch(question, bytes))
    return {memory, *largest, largest_batch_of_same_tokens(question, bytes)};
  const auto changes = changes_that_fit(plan.variants, bytes);
  std::string advice = "no strategy fits, also not with full checkpointing" +
                       std::string(question.on_cuda ? " and parallel.cpu_offload = true" : "") +
                       "; use more ranks, lower train.sequence_length or the model's size";
  if (!changes.empty()) {
    advice = "it fits with ";
    for (size_t i = 0; i < changes.size(); ++i) advice += (i > 0 ? ", or with " : "") + changes[i];
  }
  const PlannedBatch one = plan_batch(question, 1, question.gradient_accumulation);
  throw Error(ExitStatus::usage, experiment.file.string() + ": train.batch_size = 1 takes " +
                                     human_bytes(one.peak.total) + " per rank (in " + one.phase + ", " +
                                     largest_part(one.peak) + "), more than --fit " + memory + "; " + advice);
}

std::string state_of(const PlannedRun& stage) {
  return stage.reused_run == 0 ? "would run first: no finished run in the log"
                               : "run " + std::to_string(stage.reused_run) + " would be reused";
}

/// The layout given by --nodes, --gpus and --on.
struct Cluster {
  int64_t hosts = 1;
  const Hardware* hardware = nullptr;
  std::optional<int64_t> memory;  ///< of a rank
  std::vector<StepCost> costs;
  const StepCost* best = nullptr;  ///< of `costs`
};

Cluster plan_cluster(const Options& options, const ExperimentPlan& plan) {
  Cluster cluster;
  cluster.hosts = options.nodes;
  if (!options.on.empty()) cluster.hardware = &hardware_named(options.on);
  if (cluster.hardware) cluster.memory = int64_t(cluster.hardware->memory);
  if (!options.fit.empty()) cluster.memory = parsed_bytes(options.fit);
  cluster.costs = step_costs(plan, cluster.hardware, cluster.memory);
  if (cluster.memory) cluster.best = recommended(cluster.costs);
  return cluster;
}

struct Answer {
  const Experiment& experiment;
  const ExperimentPlan& plan;
  const std::vector<PlannedRun>& stages;
  size_t members;      ///< in its [sweep]; 0: no sweep
  std::string misfit;  ///< why it does not fit on this machine, or ""
  std::optional<Fit> fit;
  std::optional<Cluster> cluster;
};

Json to_json(const MemoryMoment& moment) {
  Json bytes;
  for (int i = 0; i < num_memory_categories; ++i) bytes[to_string(MemoryCategory(i))] = moment.bytes[size_t(i)];
  bytes["allocated"] = moment.total;
  return bytes;
}

Json to_json(const PlannedBatch& batch) {
  return {{"batch_size", batch.batch_size},
          {"gradient_accumulation", batch.gradient_accumulation},
          {"phase", batch.phase},
          {"bytes", to_json(batch.peak)}};
}

Json to_json(const Cluster& cluster) {
  Json json{{"hosts", cluster.hosts},
            {"on", cluster.hardware ? Json(cluster.hardware->name) : Json()},
            {"recommended", cluster.best ? Json(to_string(cluster.best->variant->strategy)) : Json()},
            {"strategies", Json::array()}};
  for (const StepCost& cost : cluster.costs) {
    Json one{{"strategy", to_string(cost.variant->strategy)},
             {"bytes", cost.memory},
             {"fits", cluster.memory ? Json(cost.fits) : Json()},
             {"bus_bytes", cost.traffic.bus},
             {"network_bytes", cost.traffic.network},
             {"operations", cost.variant->memory.work.operations}};
    if (cost.time)
      one["time"] = {{"seconds", cost.time->seconds()},
                     {"computation", cost.time->computation},
                     {"overlapped", cost.time->overlapped},
                     {"exposed", cost.time->exposed},
                     {"mfu", cost.time->mfu}};
    json["strategies"].push_back(one);
  }
  return json;
}

void print_json(const Answer& answer) {
  const ExperimentPlan& plan = answer.plan;
  Json json{{"name", answer.experiment.name},
            {"ranks", answer.experiment.parallel.processes},
            {"precision", to_string(answer.experiment.parallel.precision)},
            {"parameters", plan.parameters},
            {"trained", plan.trained},
            {"frozen", plan.frozen},
            {"tokens_a_step", plan.data.tokens_a_step},
            {"steps", plan.data.steps ? Json(*plan.data.steps) : Json()},
            {"positions", plan.data.positions},
            {"longest_is_known", plan.data.longest_is_known},
            {"training_state_bytes", plan.training_state_bytes},
            {"model_bytes", plan.model_bytes},
            {"sweep_members", answer.members},
            {"misfit", answer.misfit.empty() ? Json() : Json(answer.misfit)},
            {"fit", Json()},
            {"cluster", answer.cluster ? to_json(*answer.cluster) : Json()},
            {"stages", Json::array()},
            {"memory", Json::array()}};
  if (answer.fit)
    json["fit"] = {{"largest", to_json(answer.fit->largest)},
                   {"same_tokens", answer.fit->same_tokens ? to_json(*answer.fit->same_tokens) : Json()}};
  for (const PlannedRun& stage : answer.stages)
    json["stages"].push_back({{"tables", stage.tables}, {"file", stage.file}, {"state", state_of(stage)}});
  for (const PlannedVariant& variant : plan.variants) {
    const auto most = highest(variant.memory.phases);
    Json phases;
    for (const auto& [phase, moment] : variant.memory.phases) phases[phase] = to_json(moment);
    json["memory"].push_back({{"adapter", variant.adapter},
                              {"strategy", to_string(variant.strategy)},
                              {"this_one", variant.is_this_one},
                              {"phase", most->first},
                              {"bytes", to_json(most->second)},
                              {"offloaded",
                               {{"host", variant.memory.offloaded.host},
                                {"to_device", variant.memory.offloaded.to_device},
                                {"to_host", variant.memory.offloaded.to_host}}},
                              {"phases", phases}});
  }
  std::cout << json.dump(1) << '\n';
}

struct Unit {
  const char* name;
  double bytes;
};
Unit unit_of(int64_t largest) { return largest < (int64_t{10} << 30) ? Unit{"MiB", 1 << 20} : Unit{"GiB", 1 << 30}; }

std::string strategy_of(const PlannedVariant& variant) {
  return std::string(to_string(variant.strategy)) + (variant.is_this_one ? " *" : "");
}

double rounded(double value) { return std::round(value * 100) / 100; }

void print_memory(const std::vector<PlannedVariant>& variants) {
  MemoryMoment most;
  for (const PlannedVariant& variant : variants) {
    const MemoryMoment& peak = highest(variant.memory.phases)->second;
    for (size_t i = 0; i < peak.bytes.size(); ++i) most.bytes[i] = std::max(most.bytes[i], peak.bytes[i]);
    most.total = std::max(most.total, peak.total);
  }
  const Unit unit = unit_of(most.total);
  Table table{{"strategy", "adapter", "peak phase", unit.name}, {}, false};
  for (int i = 0; i < num_memory_categories; ++i)
    if (most.bytes[size_t(i)] > 0) table.columns.push_back(to_string(MemoryCategory(i)));
  const auto shown_bytes = [&](int64_t bytes) { return rounded(double(bytes) / unit.bytes); };
  for (const PlannedVariant& variant : variants) {
    const auto peak = highest(variant.memory.phases);
    std::vector<nlohmann::json> row{strategy_of(variant), variant.adapter, peak->first,
                                    shown_bytes(peak->second.total)};
    for (int i = 0; i < num_memory_categories; ++i)
      if (most.bytes[size_t(i)] > 0) row.push_back(shown_bytes(peak->second.bytes[size_t(i)]));
    table.rows.push_back(std::move(row));
  }
  std::cout << "\npeak tensor memory per rank, " << unit.name << " (* this experiment)\n";
  print_table(std::cout, table, TableFormat::text);
  std::cout << "\nCounted: tensors (weights, gradients, optimizer state, activations, logits, communication buffers).\n"
               "Not counted: the process itself (libraries, threads, connections), memory that the allocator caches,\n"
               "tensors that plugins create.\n";
}

void print_offloaded(const std::vector<PlannedVariant>& variants) {
  const auto mebibytes = [](int64_t bytes) { return rounded(double(bytes) / (1 << 20)); };
  Table table{{"strategy", "adapter", "host memory", "to device", "to host"}, {}, false};
  for (const PlannedVariant& variant : variants) {
    const Offloaded& bytes = variant.memory.offloaded;
    table.rows.push_back({strategy_of(variant), variant.adapter, mebibytes(bytes.host), mebibytes(bytes.to_device),
                          mebibytes(bytes.to_host)});
  }
  std::cout << "\noffloaded per rank to host memory (activations on the CPU: to a file), and transfers per step, MiB\n";
  print_table(std::cout, table, TableFormat::text);
}

void print_fit(const Fit& fit) {
  const Unit unit = unit_of(fit.largest.peak.total);
  Table table{
      {"micro-batch", "batch_size", "gradient_accumulation", unit.name, "peak phase", "largest part"}, {}, false};
  const auto add = [&](const char* name, const PlannedBatch& batch) {
    table.rows.push_back({name, batch.batch_size, batch.gradient_accumulation,
                          rounded(double(batch.peak.total) / unit.bytes), batch.phase, largest_part(batch.peak)});
  };
  add("largest", fit.largest);
  if (fit.same_tokens) add("same tokens per step", *fit.same_tokens);
  std::cout << "\nmicro-batches that fit into " << fit.memory << " per rank\n";
  print_table(std::cout, table, TableFormat::text);
  if (!fit.same_tokens)
    std::cout
        << "None leaves the tokens of a step as they are: accumulation keeps gradients during the forward pass.\n";
}

std::string seconds_text(double seconds) { return printed("%.2f s", seconds); }

void print_recommendation(const Cluster& cluster) {
  if (!cluster.best)
    std::cout << "Recommended: none, because no strategy fits; --fit names the batch or the changes that do.\n";
  else
    std::cout << "Recommended: " << to_string(cluster.best->variant->strategy) << ", which of those that fit "
              << (cluster.best->time ? "has the shortest step"
                                     : "sends the fewest bytes between hosts, then over the bus")
              << ".\n";
}

void print_times(const Hardware& hardware, const StepCost& whole) {
  if (!whole.time) {
    std::cout << "No times: " << hardware.name << " is not calibrated"
              << (hardware.products > 0 ? " in fp32.\n" : ".\n");
    return;
  }
  const bool hides = whole.time->hides_communication();
  std::cout << "One axis is " << (whole.fits && hides ? "enough" : "not enough") << ": full_shard over "
            << counted(whole.variant->question.ranks, "rank") << " computes for "
            << seconds_text(whole.time->computation) << " and communicates for " << seconds_text(whole.time->overlapped)
            << " meanwhile" << (whole.fits ? "" : ", but does not fit")
            << (hides ? "" : "; more tokens per rank and micro-batch hide more") << ".\nTimes: products at "
            << rounded(100 * hardware.products) << "% of the peak, links of " << shown(hardware.bus / 1e9)
            << " (bus) and " << shown(hardware.network / 1e9) << " GB/s (network) per rank; see docs/plan.md.\n";
}

Table table_of(const Cluster& cluster) {
  const bool has_times = cluster.costs.front().time.has_value();
  Table table{{"strategy", "GiB", "bus GB", "network GB"}, {}, false};
  if (has_times) table.columns.insert(table.columns.end(), {"step s", "MFU %"});
  if (cluster.memory) table.columns.emplace_back("fits");
  for (const StepCost& cost : cluster.costs) {
    std::vector<nlohmann::json> row{strategy_of(*cost.variant), rounded(double(cost.memory) / (1 << 30)),
                                    rounded(cost.traffic.bus / 1e9), rounded(cost.traffic.network / 1e9)};
    if (has_times) {
      row.emplace_back(rounded(cost.time->seconds()));
      row.emplace_back(std::round(1000 * cost.time->mfu) / 10);
    }
    if (cluster.memory) row.emplace_back(cost.fits ? "yes" : "no");
    table.rows.push_back(std::move(row));
  }
  return table;
}

void print_cluster(const Cluster& cluster) {
  const StepCost& whole = *std::ranges::find_if(
      cluster.costs, [](const StepCost& cost) { return cost.variant->strategy == Strategy::full_shard; });
  std::cout << '\n'
            << counted(cluster.hosts, "host") << " of "
            << counted(whole.variant->question.ranks / cluster.hosts, "rank")
            << ": peak memory per rank, bytes that a rank receives per step (* this experiment)\n";
  print_table(std::cout, table_of(cluster), TableFormat::text);
  if (cluster.memory) print_recommendation(cluster);
  if (cluster.hardware) print_times(*cluster.hardware, whole);
}

std::string checkpointing_text(double share) { return share == 0 ? "none" : share == 1 ? "full" : shown(share); }

void print_text(const Answer& answer) {
  const Experiment& e = answer.experiment;
  const ExperimentPlan& plan = answer.plan;
  std::cout << e.name << ": pipeline " << e.pipeline.plugin << ", adapter " << e.adapter.plugin << ", "
            << counted(e.parallel.processes, "rank") << ", " << to_string(e.parallel.precision)
            << ", activation checkpointing " << checkpointing_text(e.parallel.activation_checkpointing) << '\n';
  std::cout << "  parameters  " << with_thousands(plan.parameters) << " (" << with_thousands(plan.trained)
            << " trained)\n";
  for (const auto& [table, parameters] : plan.frozen)
    std::cout << "  " << table << std::string(12 - table.size(), ' ') << with_thousands(parameters)
              << " parameters, frozen\n";
  std::cout << "  steps       " << (plan.data.steps ? with_thousands(*plan.data.steps) : "number unknown,") << " of "
            << counted(plan.data.tokens_a_step, "token");
  if (e.data.kind == "records") std::cout << ", padding included";
  if (plan.data.steps) std::cout << ": " << with_thousands(*plan.data.steps * plan.data.tokens_a_step);
  std::cout << '\n';
  if (!plan.data.steps)
    std::cout << "              (" << e.train.epochs
              << " epochs; their length is unknown until `wmtp-host data prepare`)\n";
  if (!plan.data.longest_is_known)
    std::cout << "  sequences   assumed to have train.sequence_length tokens; actual lengths are known after\n"
                 "              `wmtp-host data prepare`\n";
  else if (plan.data.positions != e.train.sequence_length)
    std::cout << "  sequences   at most " << plan.data.positions << " positions (the longest record)\n";
  std::cout << "  disk        " << human_bytes(plan.training_state_bytes) << " per checkpoint to resume from ("
            << e.checkpoint.keep << " are kept), " << human_bytes(plan.model_bytes) << " for the final model\n";
  for (const PlannedRun& stage : answer.stages)
    std::cout << "  stage       " << title_of(stage) << " " << state_of(stage) << '\n';
  if (!answer.misfit.empty()) std::cout << "  machine     does not fit: " << answer.misfit << '\n';
  if (answer.members > 0)
    std::cout << "  sweep       " << counted(int64_t(answer.members), "member")
              << "; the plan ignores the sweep's values\n";
  if (answer.cluster)
    print_cluster(*answer.cluster);
  else
    print_memory(plan.variants);
  if (answer.fit) print_fit(*answer.fit);
  if (e.parallel.cpu_offload != CpuOffload::none || e.parallel.activation_offload) print_offloaded(plan.variants);
}

/// --set, and the settings that other options stand for.
std::vector<std::string> overrides_of(const Options& options) {
  std::vector<std::string> overrides = options.overrides;
  const int64_t ranks = options.gpus > 0 ? options.nodes * options.gpus : options.nproc;
  if (ranks > 0) overrides.push_back("parallel.processes=" + std::to_string(ranks));
  if (options.gpus > 0 || !options.on.empty()) overrides.emplace_back("parallel.device=cuda");
  return overrides;
}

int plan(const Options& options, const GlobalOptions& globals) {
  check_thread_count();
  const Catalog catalog(globals.plugin_folders);
  const auto overrides = overrides_of(options);
  SourceTexts texts;
  LoadRequest request = load_request(catalog, options.file, overrides);
  request.texts = &texts;
  const Experiment as_read = load_experiment(request);
  const Experiment experiment = with_ranks_of_a_host(as_read, ranks_on_each(as_read, options.nodes));
  const auto database = globals.database_or(experiment.log.database);
  ExperimentHashes hashes(catalog, database);
  check_inputs(experiment, experiment.parallel.processes, catalog, hashes, database);
  const ExperimentPlan plan = plan_experiment(experiment, catalog, database.parent_path() / "cache", options.nodes);
  const std::vector<PlannedRun> stages = plan_stages(experiment, hashes, /*resume=*/false);
  for (const PlannedRun& stage : stages)
    if (const Experiment& one = experiment_at(experiment, stage.path); stage.reused_run == 0)
      check_inputs(one, processes_of(one, options.nproc), catalog, hashes, database);
  Machine machine = this_machine(experiment);
  machine.hosts = options.nodes;
  const bool is_for_cluster = options.gpus > 0 || !options.on.empty();
  const Answer answer{experiment,
                      plan,
                      stages,
                      read_sweep(options.file, overrides, texts).size(),
                      is_for_cluster ? "" : misfit(ranks_here(experiment, plan, machine), machine),
                      options.fit.empty() ? std::nullopt : std::optional(fit_into(options.fit, experiment, plan)),
                      is_for_cluster ? std::optional(plan_cluster(options, plan)) : std::nullopt};
  if (options.json)
    print_json(answer);
  else
    print_text(answer);
  return 0;
}

}  // namespace

void add_plan(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  auto& plan_command =
      line.add("plan",
               "estimate the stages, parameters, memory, tokens and disk space of an experiment\n\n"
               "Trains nothing and allocates no tensor, so models of any size are planned immediately.\n\n"
               "examples:\n"
               "  wmtp-host plan experiments/rho1.toml\n"
               "  wmtp-host plan experiments/rho1.toml --nproc 8 --set parallel.precision=bf16\n"
               "  wmtp-host plan experiments/rho1.toml --fit 80GiB\n"
               "  wmtp-host plan experiments/rho1.toml --nodes 8 --gpus 8 --on h100\n"
               "  wmtp-host plan experiments/lora.toml --json\n",
               [options](const GlobalOptions& globals) { return plan(*options, globals); });
  plan_command.add_option("FILE", options->file, "experiment (TOML)")->required();
  add_set(plan_command, options->overrides);
  add_nproc(plan_command, options->nproc);
  plan_command.add_option("--nodes", options->nodes, "number of hosts like this one that share the ranks equally (1)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  plan_command
      .add_option("--fit", options->fit, "find the largest train.batch_size that fits into this memory per rank")
      ->type_name("MEMORY");
  plan_command
      .add_option("--gpus", options->gpus,
                  "compare the cost of a step with this number of GPUs on each host, a rank for each")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->excludes("--nproc");
  plan_command.add_option("--on", options->on, "compare the cost of a step on this hardware: h100, a100-80gb or h200")
      ->type_name("NAME");
  plan_command.add_flag("--json", options->json, "print JSON, with every phase of every strategy");
}

}  // namespace wmtp
