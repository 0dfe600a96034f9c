#include "plan/plan_report.hpp"

#include <algorithm>
#include <cmath>

#include "base/json.hpp"
#include "base/text.hpp"
#include "experiment/batch_size.hpp"
#include "model/sections.hpp"
#include "report/table.hpp"

namespace wmtp {
namespace {

std::string stage_state_text(const RunPlan& stage) {
  return stage.reused_run == 0 ? "would run first: no finished run in the log"
                               : "run " + std::to_string(stage.reused_run) + " would be reused";
}

OrderedJson to_json(const MemorySnapshot& snapshot) {
  OrderedJson bytes;
  for (int i = 0; i < num_memory_categories; ++i) bytes[to_string(MemoryCategory(i))] = snapshot.bytes[size_t(i)];
  bytes["allocated"] = snapshot.total;
  return bytes;
}

/// null on the CPU
OrderedJson reserved_json(int64_t bytes) { return bytes > 0 ? OrderedJson(bytes) : OrderedJson(); }

OrderedJson to_json(const PlannedBatch& batch) {
  return {{"batch_size", batch.batch_size},
          {"gradient_accumulation", batch.gradient_accumulation},
          {"phase", batch.phase},
          {"bytes", to_json(batch.peak)},
          {"reserved", reserved_json(batch.reserved)},
          {"seconds", batch.seconds > 0 ? OrderedJson(batch.seconds) : OrderedJson()}};
}

RunCost run_of(const PlannedData& data, const StepCost& cost) {
  return run_cost(data, cost.time->seconds, cost.variant->request.ranks);
}

OrderedJson to_json(const PlannedCluster& cluster, const PlannedData& data) {
  OrderedJson json{
      {"hosts", cluster.hosts},
      {"on", cluster.hardware ? OrderedJson(cluster.hardware->name) : OrderedJson()},
      {"like", cluster.like ? OrderedJson({{"run", cluster.like->run},
                                           {"operations", cluster.like->operations},
                                           {"exchange_seconds", cluster.like->exchange_seconds}})
                            : OrderedJson()},
      {"socket_seconds", cluster.socket_seconds},
      {"recommended", cluster.best ? OrderedJson(to_string(cluster.best->variant->strategy)) : OrderedJson()},
      {"recommended_sequence",
       cluster.best ? OrderedJson(cluster.best->variant->request.sequence_ranks) : OrderedJson()},
      {"recommended_tensor", cluster.best ? OrderedJson(cluster.best->variant->request.tensor_ranks) : OrderedJson()},
      {"recommended_pipeline", cluster.best ? OrderedJson(cluster.best->variant->request.sections) : OrderedJson()},
      {"strategies", OrderedJson::array()},
      {"divided", OrderedJson::array()}};
  const auto is_divided = [&](const StepCost& cost) {
    const StepRequest &own = cluster.costs.front().variant->request, &one = cost.variant->request;
    return one.sequence_ranks != own.sequence_ranks || one.tensor_ranks != own.tensor_ranks ||
           one.sections != own.sections;
  };
  for (const StepCost& cost : cluster.costs) {
    OrderedJson one{{"strategy", to_string(cost.variant->strategy)},
                    {"bytes", cost.tensor_bytes},
                    {"reserved", reserved_json(cost.variant->step.reserved)},
                    {"fits", cluster.memory ? OrderedJson(cost.fits) : OrderedJson()},
                    {"bus_bytes", cost.traffic.bus},
                    {"network_bytes", cost.traffic.network},
                    {"operations", cost.variant->step.work.operations},
                    {"sequence", cost.variant->request.sequence_ranks},
                    {"tensor", cost.variant->request.tensor_ranks},
                    {"pipeline", cost.variant->request.sections}};
    if (cost.time) one["time"] = to_json(*cost.time, run_of(data, cost));
    json[is_divided(cost) ? "divided" : "strategies"].push_back(one);
  }
  return json;
}

struct Unit {
  const char* name;
  double bytes;
};
Unit unit_of(int64_t largest) { return largest < (int64_t{10} << 30) ? Unit{"MiB", 1 << 20} : Unit{"GiB", 1 << 30}; }

std::string strategy_of(const PlannedVariant& variant) {
  return layout_of(variant.request) + (variant.is_experiments_own ? " *" : "");
}

double rounded(double value) { return std::round(value * 100) / 100; }

void print_memory(std::ostream& out, const std::vector<PlannedVariant>& variants) {
  MemorySnapshot most;
  for (const PlannedVariant& variant : variants) {
    const MemorySnapshot& peak = highest_phase(variant.step.phases)->second;
    for (size_t i = 0; i < peak.bytes.size(); ++i) most.bytes[i] = std::max(most.bytes[i], peak.bytes[i]);
    most.total = std::max(most.total, peak.total);
  }
  const Unit unit = unit_of(most.total);
  const bool has_segments = variants.front().step.reserved > 0;
  Table table{{"strategy", "adapter", "peak phase", unit.name}, {}, false};
  if (has_segments) table.columns.emplace_back("reserved");
  for (int i = 0; i < num_memory_categories; ++i)
    if (most.bytes[size_t(i)] > 0) table.columns.push_back(to_string(MemoryCategory(i)));
  const auto shown_bytes = [&](int64_t bytes) { return rounded(double(bytes) / unit.bytes); };
  for (const PlannedVariant& variant : variants) {
    const auto peak = highest_phase(variant.step.phases);
    std::vector<Json> row{strategy_of(variant), variant.adapter, peak->first, shown_bytes(peak->second.total)};
    if (has_segments) row.emplace_back(shown_bytes(variant.step.reserved));
    for (int i = 0; i < num_memory_categories; ++i)
      if (most.bytes[size_t(i)] > 0) row.push_back(shown_bytes(peak->second.bytes[size_t(i)]));
    table.rows.push_back(std::move(row));
  }
  out << "\npeak tensor memory per rank, " << unit.name << " (* this experiment)\n";
  print_table(out, table, TableFormat::text);
  out << "\nCounted: tensors (weights, gradients, optimizer state, activations, logits, communication buffers).\n"
      << (has_segments ? "reserved: what LibTorch's allocator holds for them, and for the products' scratch memory.\n"
                         "Not counted: the CUDA context and NCCL's buffers.\n"
                       : "Not counted: the process itself (libraries and their scratch memory, threads, connections), "
                         "memory that the\nallocator caches.\n");
}

void print_offloaded(std::ostream& out, const std::vector<PlannedVariant>& variants) {
  const auto mebibytes = [](int64_t bytes) { return rounded(double(bytes) / (1 << 20)); };
  Table table{{"strategy", "adapter", "host memory", "to device", "to host"}, {}, false};
  for (const PlannedVariant& variant : variants) {
    const OffloadCost& bytes = variant.step.offloaded;
    table.rows.push_back({strategy_of(variant), variant.adapter, mebibytes(bytes.host), mebibytes(bytes.to_device),
                          mebibytes(bytes.to_host)});
  }
  out << "\noffloaded per rank to host memory (activations on the CPU: to a file), and transfers per step, MiB\n";
  print_table(out, table, TableFormat::text);
}

void print_state_files(std::ostream& out, const std::vector<PlannedVariant>& variants) {
  const auto mebibytes = [](int64_t bytes) { return rounded(double(bytes) / (1 << 20)); };
  Table table{{"strategy", "adapter", "file", "read", "written"}, {}, false};
  for (const PlannedVariant& variant : variants) {
    const OffloadCost& bytes = variant.step.offloaded;
    table.rows.push_back({strategy_of(variant), variant.adapter, mebibytes(bytes.file), mebibytes(bytes.from_file),
                          mebibytes(bytes.to_file)});
  }
  out << "\noptimizer state per rank in a file, in 16 bits with master parameters, and bytes read and written per "
         "step, MiB\n";
  print_table(out, table, TableFormat::text);
}

void print_fit(std::ostream& out, const PlannedFit& fit) {
  const Unit unit = unit_of(fit.largest.peak.total);
  Table table{
      {"micro-batch", "batch_size", "gradient_accumulation", unit.name, "peak phase", "largest part"}, {}, false};
  const bool has_segments = fit.largest.reserved > 0;
  if (has_segments) table.columns.insert(table.columns.begin() + 4, "reserved");
  if (fit.largest.seconds > 0) table.columns.emplace_back("step s");
  const auto add = [&](const char* name, const PlannedBatch& batch) {
    table.rows.push_back({name, batch.batch_size, batch.gradient_accumulation,
                          rounded(double(batch.peak.total) / unit.bytes), batch.phase, largest_part(batch.peak)});
    auto& row = table.rows.back();
    if (has_segments) row.insert(row.begin() + 4, rounded(double(batch.reserved) / unit.bytes));
    if (batch.seconds > 0) row.emplace_back(rounded(batch.seconds));
  };
  add("largest", fit.largest);
  if (fit.same_tokens) add("same tokens per step", *fit.same_tokens);
  out << "\nmicro-batches that fit into " << fit.memory << " per rank\n";
  print_table(out, table, TableFormat::text);
  if (!fit.same_tokens)
    out << "None leaves the tokens of a step as they are: accumulation takes memory for ids, and at "
           "first for gradients.\n";
}

/// "33.7% of the peak"
std::string products_text(const Hardware& hardware) {
  const std::string share = shown(rounded(100 * hardware.products)) + "% of the peak";
  if (*hardware.calibrated_by == '\0') return share + " (assumed: the lowest of the calibrated cards)";
  const bool is_own = hardware.calibrated_by == std::string(hardware.name);
  return share + (is_own ? "" : std::string(" as on ") + hardware.calibrated_by);
}

std::string seconds_text(double seconds) { return printed("%.2f s", seconds); }

void print_recommendation(std::ostream& out, const PlannedCluster& cluster) {
  if (!cluster.best)
    out << "Recommended: none, because no strategy fits; --fit names the batch or the changes that do.\n";
  else
    out << "Recommended: " << layout_of(cluster.best->variant->request) << ", which of those that fit "
        << (cluster.best->time ? "has the shortest step" : "sends the fewest bytes between hosts, then over the bus")
        << "; of those within 1% of it, it takes the least memory.\n";
}

void print_times(std::ostream& out, const Hardware& hardware, const StepCost& whole) {
  if (!whole.time) {
    out << "No times: " << hardware.name << " is not calibrated in fp32.\n";
    return;
  }
  const bool hides = whole.time->communication <= whole.time->computation;
  if (whole.variant->request.ranks > 1)
    out << "Sharding alone is " << (whole.fits && hides ? "enough" : "not enough") << ": full_shard over "
        << counted(whole.variant->request.ranks, "rank") << " computes for " << seconds_text(whole.time->computation)
        << " and communicates for " << seconds_text(whole.time->communication)
        << (whole.fits ? "" : ", but does not fit") << (hides ? "" : "; more tokens per rank and micro-batch hide more")
        << ".\n";
  out << "Times: products at " << products_text(hardware) << ", links of " << shown(hardware.bus / 1e9) << " (bus) and "
      << shown(hardware.network / 1e9) << " GB/s (network) per rank; see docs/plan.md.\n";
}

void print_measured_rates(std::ostream& out, const PlannedCluster& cluster) {
  const MeasuredRate& like = *cluster.like;
  out << "Times: " << printed("%.1f", like.operations / 1e9) << " GFLOP/s per rank, as in run " << like.run << " ("
      << like.name << ", " << counted(like.ranks, "rank") << ")";
  if (cluster.gigabits > 0)
    out << "; " << shown(cluster.gigabits) << " Gbit/s between hosts, which the ranks of a host share, and "
        << printed("%.1f", 1e9 * cluster.socket_seconds) << " s of computing per GB";
  out << "; see docs/plan.md.\n";
}

/// The bytes of no_shard, with which the others are compared; 0 if it is not planned.
int64_t bytes_without_sharding(const PlannedCluster& cluster) {
  const auto found = std::ranges::find_if(
      cluster.costs, [](const StepCost& cost) { return cost.variant->strategy == Strategy::no_shard; });
  return found == cluster.costs.end() || found->variant->request.ranks == 1 ? 0 : found->tensor_bytes;
}

Table table_of(const PlannedCluster& cluster, const PlannedData& data) {
  const bool has_times = cluster.costs.front().time.has_value();
  const Unit unit = unit_of(std::ranges::max(cluster.costs, {}, &StepCost::tensor_bytes).tensor_bytes);
  const bool has_segments = cluster.costs.front().variant->step.reserved > 0;
  const int64_t unsharded = bytes_without_sharding(cluster);
  Table table{{"strategy", unit.name}, {}, false};
  if (unsharded > 0) table.columns.emplace_back("%");
  if (has_segments) table.columns.emplace_back("reserved");
  table.columns.insert(table.columns.end(), {"bus GB", "network GB"});
  if (has_times) table.columns.emplace_back("step s");
  if (has_times && cluster.hardware) table.columns.emplace_back("MFU %");
  if (has_times) table.columns.emplace_back("tokens/s");
  if (has_times && data.steps) table.columns.emplace_back("hours");
  if (has_times && data.steps && cluster.hardware) table.columns.emplace_back("GPU-hours");
  if (cluster.memory) table.columns.emplace_back("fits");
  for (const StepCost& cost : cluster.costs) {
    std::vector<Json> row{strategy_of(*cost.variant), rounded(double(cost.tensor_bytes) / unit.bytes)};
    if (unsharded > 0) row.emplace_back(std::round(100 * double(cost.tensor_bytes) / double(unsharded)));
    if (has_segments) row.emplace_back(rounded(double(cost.variant->step.reserved) / unit.bytes));
    row.insert(row.end(), {rounded(cost.traffic.bus / 1e9), rounded(cost.traffic.network / 1e9)});
    if (has_times) row.emplace_back(rounded(cost.time->seconds));
    if (has_times && cluster.hardware) row.emplace_back(std::round(1000 * cost.time->mfu) / 10);
    if (has_times) {
      const RunCost run = run_of(data, cost);
      row.emplace_back(std::llround(significant(run.tokens_per_second)));
      if (run.hours) row.emplace_back(significant(*run.hours));
      if (run.hours && cluster.hardware) row.emplace_back(significant(run.gpu_hours));
    }
    if (cluster.memory) row.emplace_back(cost.fits ? "yes" : "no");
    table.rows.push_back(std::move(row));
  }
  return table;
}

void print_cluster(std::ostream& out, const PlannedCluster& cluster, const PlannedData& data) {
  const auto sharded = std::ranges::find_if(
      cluster.costs, [](const StepCost& cost) { return cost.variant->strategy == Strategy::full_shard; });
  const StepCost& whole = sharded == cluster.costs.end() ? cluster.costs.front() : *sharded;  // one rank: its only one
  out << '\n'
      << counted(cluster.hosts, "host") << " of " << counted(whole.variant->request.ranks / cluster.hosts, "rank")
      << ": peak tensor memory per rank, bytes that a rank receives per step (* this experiment)\n";
  print_table(out, table_of(cluster, data), TableFormat::text);
  if (bytes_without_sharding(cluster) > 0) out << "%: of the memory of no_shard.\n";
  if (whole.variant->step.reserved > 0)
    out << "reserved: what LibTorch's allocator holds for these tensors" << (cluster.memory ? ", which must fit" : "")
        << ".\n";
  if (!cluster.divided.empty())
    out << "sequence N, tensor N, pipeline N: N ranks divide the positions of each sequence, the features of each "
           "block,\n"
           "or the blocks of the model (micro-batches x batch_size); with N times the micro-batches, a step has as "
           "many tokens.\n";
  if (cluster.memory) print_recommendation(out, cluster);
  if (cluster.hardware) print_times(out, *cluster.hardware, whole);
  if (cluster.like) print_measured_rates(out, cluster);
}

std::string checkpointing_text(double share) { return share == 0 ? "none" : share == 1 ? "full" : shown(share); }

/// "  sections    blocks 0 to 3 | blocks 4 to 5 and the heads; bubble 11% of a step of 8 micro-batches; the busiest
/// section computes 1.12 times the mean"
void print_sections(std::ostream& out, const Experiment& e, const PlannedStep& step) {
  const int64_t sections = e.parallel.pipeline,
                micros = micro_batches(e.train, data_ranks(e.parallel, e.parallel.processes));
  out << "  sections    ";
  for (int64_t i = 0; i < sections; ++i) {
    const Section section{i, sections};
    const BlockRange blocks = section_blocks(e.model, step.token_heads, section);
    if (i > 0) out << " | ";
    if (blocks.end > blocks.first) out << "blocks " << blocks.first << " to " << blocks.end - 1;
    if (section.is_last()) out << (blocks.end > blocks.first ? " and the heads" : "the heads");
  }
  out << "; bubble " << std::llround(100 * pipeline_bubble(sections, micros)) << "% of a step of "
      << counted(micros, "micro-batch", "es")
      << printed("; the busiest section computes %.2f times the mean\n", step.imbalance);
}

/// Of a checkpoint to resume from.
int64_t state_bytes(const ExperimentPlan& plan) {
  return 4 * plan.counts().state + plan.data.previous_losses_bytes.value_or(0);
}

void print_previous_losses(std::ostream& out, const Experiment& e, const PlannedData& data) {
  out << "  losses      of each token when last read, by head: ";
  if (!data.previous_losses_bytes)
    out << "not counted in memory and disk, because the number\n              of tokens is unknown until `wmtp-host "
           "data prepare`\n";
  else
    out << human_bytes(*data.previous_losses_bytes) << " in host memory of each rank with the heads, twice of rank 0\n"
        << "              while it saves"
        << (e.parallel.device == DeviceChoice::cuda ? "; not counted below, where only the device's memory is\n"
                                                    : "\n");
}

}  // namespace

std::string largest_part(const MemorySnapshot& snapshot) {
  const MemoryCategory most = largest_category(snapshot);
  return human_bytes(snapshot.bytes[size_t(most)]) + " " + to_string(most);
}

/// "  head losses weighted 1 0.3 at step 1, 1 0.1 at step 500"
void print_head_weights(std::ostream& out, const TrainConfig& train) {
  const auto print = [&](const std::vector<double>& weights) {
    for (const double weight : weights) out << ' ' << shown(weight);
  };
  out << "  head losses weighted";
  if (train.head_weights_later.empty()) print(train.head_weights);
  for (const HeadWeightsPoint& point : train.head_weights_later) {
    print(point.weights);
    out << " at step " << with_thousands(point.step) << (&point == &train.head_weights_later.back() ? "" : ",");
  }
  out << '\n';
}

void print_json(std::ostream& out, const PlanReport& report) {
  const ExperimentPlan& plan = report.plan;
  OrderedJson json{{"name", report.experiment.name},
                   {"ranks", report.experiment.parallel.processes},
                   {"precision", to_string(report.experiment.parallel.precision)},
                   {"parameters", plan.counts().parameters},
                   {"trained", plan.counts().trained},
                   {"frozen", plan.counts().frozen},
                   {"tokens_a_step", plan.data.tokens_a_step},
                   {"steps", plan.data.steps ? OrderedJson(*plan.data.steps) : OrderedJson()},
                   {"positions", plan.data.sequence_length},
                   {"longest_is_known", plan.data.longest_is_known},
                   {"reads_previous_losses", plan.data.reads_previous_losses},
                   {"previous_losses_bytes",
                    plan.data.previous_losses_bytes ? OrderedJson(*plan.data.previous_losses_bytes) : OrderedJson()},
                   {"training_state_bytes", state_bytes(plan)},
                   {"model_bytes", 4 * plan.counts().model},
                   {"sweep_members", report.members},
                   {"misfit", report.misfit.empty() ? OrderedJson() : OrderedJson(report.misfit)},
                   {"fit", OrderedJson()},
                   {"cluster", report.cluster ? to_json(*report.cluster, plan.data) : OrderedJson()},
                   {"stages", OrderedJson::array()},
                   {"memory", OrderedJson::array()}};
  if (report.fit)
    json["fit"] = {{"largest", to_json(report.fit->largest)},
                   {"same_tokens", report.fit->same_tokens ? to_json(*report.fit->same_tokens) : OrderedJson()}};
  for (const RunPlan& stage : report.stages)
    json["stages"].push_back({{"tables", stage.tables}, {"file", stage.file}, {"state", stage_state_text(stage)}});
  for (const PlannedVariant& variant : plan.variants) {
    const auto most = highest_phase(variant.step.phases);
    OrderedJson phases;
    for (const auto& [phase, snapshot] : variant.step.phases) phases[phase] = to_json(snapshot);
    json["memory"].push_back({{"adapter", variant.adapter},
                              {"strategy", to_string(variant.strategy)},
                              {"this_one", variant.is_experiments_own},
                              {"phase", most->first},
                              {"bytes", to_json(most->second)},
                              {"reserved", reserved_json(variant.step.reserved)},
                              {"offloaded",
                               {{"host", variant.step.offloaded.host},
                                {"to_device", variant.step.offloaded.to_device},
                                {"to_host", variant.step.offloaded.to_host},
                                {"file", variant.step.offloaded.file},
                                {"from_file", variant.step.offloaded.from_file},
                                {"to_file", variant.step.offloaded.to_file}}},
                              {"phases", phases}});
  }
  out << json.dump(1) << '\n';
}

void print_text(std::ostream& out, const PlanReport& report) {
  const Experiment& e = report.experiment;
  const ExperimentPlan& plan = report.plan;
  out << e.name << ": pipeline " << e.pipeline.plugin << ", adapter " << e.adapter.plugin << ", "
      << counted(e.parallel.processes, "rank")
      << (ranks_per_sequence(e.parallel) > 1 ? ", " + sequence_ranks_text(e.parallel) : "") << ", "
      << to_string(e.parallel.precision) << ", activation checkpointing "
      << checkpointing_text(e.parallel.activation_checkpointing) << '\n';
  if (e.parallel.pipeline > 1) print_sections(out, e, plan.variants.front().step);
  out << "  parameters  " << with_thousands(plan.counts().parameters) << " (" << with_thousands(plan.counts().trained)
      << " trained)\n";
  for (const auto& [table, parameters] : plan.counts().frozen)
    out << "  " << table << std::string(table.size() < 11 ? 12 - table.size() : 2, ' ') << with_thousands(parameters)
        << " parameters, frozen\n";
  if (!e.train.head_weights.empty()) print_head_weights(out, e.train);
  out << "  steps       " << (plan.data.steps ? with_thousands(*plan.data.steps) : "number unknown,") << " of "
      << counted(plan.data.tokens_a_step / e.train.sequence_length, "sequence") << ", "
      << counted(plan.data.tokens_a_step, "token");
  if (e.data.kind == DataKind::records) out << ", padding included";
  if (plan.data.steps) out << ": " << with_thousands(*plan.data.steps * plan.data.tokens_a_step);
  out << '\n';
  if (!plan.data.steps)
    out << "              (" << e.train.epochs << " epochs; their length is unknown until `wmtp-host data prepare`)\n";
  if (!plan.data.longest_is_known)
    out << "  sequences   assumed to have train.sequence_length tokens; actual lengths are known after\n"
           "              `wmtp-host data prepare`\n";
  else if (plan.data.sequence_length != e.train.sequence_length)
    out << "  sequences   at most " << plan.data.sequence_length << " positions (the longest record)\n";
  if (plan.data.reads_previous_losses) print_previous_losses(out, e, plan.data);
  out << "  disk        " << human_bytes(state_bytes(plan)) << " per checkpoint to resume from (" << e.checkpoint.keep
      << (e.checkpoint.keep_best ? " and the best" : "") << " are kept), " << human_bytes(4 * plan.counts().model)
      << " for the final model\n";
  for (const RunPlan& stage : report.stages)
    out << "  stage       " << stage_title(stage) << " " << stage_state_text(stage) << '\n';
  if (!report.misfit.empty()) out << "  machine     does not fit: " << report.misfit << '\n';
  if (report.members > 0)
    out << "  sweep       " << counted(int64_t(report.members), "member") << "; the plan ignores the sweep's values\n";
  if (report.cluster)
    print_cluster(out, *report.cluster, plan.data);
  else
    print_memory(out, plan.variants);
  if (report.fit) print_fit(out, *report.fit);
  if (e.parallel.cpu_offload != CpuOffload::none || e.parallel.activation_offload) print_offloaded(out, plan.variants);
  if (e.parallel.optimizer_offload != OptimizerOffload::none) print_state_files(out, plan.variants);
}

}  // namespace wmtp
