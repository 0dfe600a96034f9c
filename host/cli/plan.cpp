// `plan FILE`: estimates an experiment without training: stages, parameters, memory on each rank, tokens, disk.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "core/config/load.hpp"
#include "core/config/sweep.hpp"
#include "core/job/input_checks.hpp"
#include "core/job/stages.hpp"
#include "core/plan/experiment_plan.hpp"
#include "core/plan/fit.hpp"
#include "core/plan/memory.hpp"
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
  bool json = false;
};

std::string state_of(const PlannedRun& stage) {
  return stage.reused_run == 0 ? "would run first: no finished run in the log"
                               : "run " + std::to_string(stage.reused_run) + " would be reused";
}

struct Answer {
  const Experiment& experiment;
  const ExperimentPlan& plan;
  const std::vector<PlannedRun>& stages;
  size_t members;      ///< in its [sweep]; 0: no sweep
  std::string misfit;  ///< why it does not fit on this machine, or ""
};

Json to_json(const MemoryMoment& moment) {
  Json bytes;
  for (int i = 0; i < num_memory_categories; ++i) bytes[to_string(MemoryCategory(i))] = moment.bytes[size_t(i)];
  bytes["allocated"] = moment.total;
  return bytes;
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
            {"stages", Json::array()},
            {"memory", Json::array()}};
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
  std::cout << "\ncpu_offload: host memory per rank, and transfers per step, MiB\n";
  print_table(std::cout, table, TableFormat::text);
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
  print_memory(plan.variants);
  if (e.parallel.cpu_offload) print_offloaded(plan.variants);
}

int plan(const Options& options, const GlobalOptions& globals) {
  check_thread_count();
  const Catalog catalog(globals.plugin_folders);
  auto overrides = options.overrides;
  if (options.nproc > 0) overrides.push_back("parallel.processes=" + std::to_string(options.nproc));
  SourceTexts texts;
  LoadRequest request = load_request(catalog, options.file, overrides);
  request.texts = &texts;
  const Experiment as_read = load_experiment(request);
  const Experiment experiment = with_ranks_of_a_host(as_read, ranks_on_each(as_read, options.nodes));
  const auto database = globals.database_or(experiment.log.database);
  ExperimentHashes hashes(catalog, database);
  check_inputs(experiment, experiment.parallel.processes, catalog, hashes, database);
  const ExperimentPlan plan = plan_experiment(experiment, catalog, database.parent_path() / "cache");
  const std::vector<PlannedRun> stages = plan_stages(experiment, hashes, /*resume=*/false);
  for (const PlannedRun& stage : stages)
    if (const Experiment& one = experiment_at(experiment, stage.path); stage.reused_run == 0)
      check_inputs(one, processes_of(one, options.nproc), catalog, hashes, database);
  Machine machine = this_machine(experiment);
  machine.hosts = options.nodes;
  const Answer answer{experiment, plan, stages, read_sweep(options.file, overrides, texts).size(),
                      misfit(ranks_here(experiment, plan, machine), machine)};
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
               "  wmtp-host plan experiments/lora.toml --json\n",
               [options](const GlobalOptions& globals) { return plan(*options, globals); });
  plan_command.add_option("FILE", options->file, "experiment (TOML)")->required();
  add_set(plan_command, options->overrides);
  add_nproc(plan_command, options->nproc);
  plan_command.add_option("--nodes", options->nodes, "number of hosts like this one that share the ranks equally (1)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  plan_command.add_flag("--json", options->json, "print JSON, with every phase of every strategy");
}

}  // namespace wmtp
