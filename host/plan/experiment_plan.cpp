#include "plan/experiment_plan.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "data/records/longest_row.hpp"
#include "data/tokens/step_count.hpp"
#include "data/tokens/text_plan.hpp"
#include "data/tokens/token_split.hpp"
#include "job/frozen_shape.hpp"
#include "job/input_checks.hpp"

namespace wmtp {
namespace {

constexpr int64_t most_sections = 8;  // to compare
constexpr int64_t micro_batches_per_section = 4;

/// The strategies to compare. On one rank they are all the same, so only the experiment's own is planned.
std::vector<Strategy> strategies(const ParallelConfig& parallel, bool has_shard_groups) {
  if (parallel.processes == 1) return {parallel.strategy};
  std::vector<Strategy> all{Strategy::full_shard, Strategy::shard_grad_op, Strategy::shard_optimizer,
                            Strategy::no_shard};
  if (has_shard_groups) all.insert(all.begin() + 1, Strategy::hybrid_shard);
  return all;
}

class Planner {
 public:
  Planner(const Experiment& experiment, const Catalog& catalog, const std::filesystem::path& cache,
          const PlanStep& plan_step, int64_t hosts, const std::optional<Rates>& rates)
      : e_(experiment),
        cache_(cache),
        plan_step_(plan_step),
        hosts_(hosts),
        rates_(rates),
        needs_(pipeline_needs(experiment, catalog)) {
    const ParallelConfig& p = e_.parallel;
    const bool are_groups_of_hosts = p.shard_group_size == 0 && hosts > 1 && hosts < p.processes;
    shard_group_size_ =
        are_groups_of_hosts ? std::min(p.processes / hosts, p.processes / p.pipeline) : p.shard_group_size;
  }

  ExperimentPlan plan() {
    check_groups(e_, e_.parallel.processes);
    ExperimentPlan plan;
    plan.data = data();
    add_variants(plan, /*trains_all=*/false);
    std::ranges::stable_partition(plan.variants, &PlannedVariant::is_experiments_own);
    check_frozen_parameters(e_, plan.counts().trained < plan.counts().parameters);
    if (e_.adapter.plugin != full) add_variants(plan, /*trains_all=*/true);
    return plan;
  }

 private:
  void add_variants(ExperimentPlan& plan, bool trains_all) const {
    StepRequest request;
    const ParallelConfig& p = e_.parallel;
    request.trains_all = trains_all;
    request.shard_group_size = shard_group_size_;
    request.ranks = p.processes;
    request.hosts = hosts_;
    request.rates = rates_;
    request.sequences_per_rank = e_.train.batch_size;
    request.sequence_length = plan.data.sequence_length;
    request.sequence_ranks = p.sequence;
    request.tensor_ranks = p.tensor;
    request.sections = p.pipeline;
    request.gradient_accumulation = micro_batches(e_.train, data_ranks(p, p.processes));
    request.activation_checkpointing = p.activation_checkpointing;
    request.activation_offload = p.activation_offload;
    request.offload = p.cpu_offload;
    request.on_cuda = p.device == DeviceChoice::cuda;
    // A planned row has the positions of the longest batch, a row of the table train.sequence_length: as many rows as
    // give the table its bytes.
    if (const auto bytes = plan.data.previous_losses_bytes; bytes && !request.on_cuda)
      request.windows = (*bytes - 1) / (4 * e_.model.future_tokens * request.sequence_length) + 1;
    for (const Strategy strategy : strategies(p, shard_group_size_ > 0)) {
      request.strategy = strategy;
      const bool is_experiments_own = !trains_all && strategy == p.strategy;
      StepRequest compared = request;  // only once: requests derived from the variant's do not repeat it
      compared.compare_ranks = is_experiments_own;
      plan.variants.push_back(
          {trains_all ? full : e_.adapter.plugin, strategy, is_experiments_own, request, plan_step_(compared)});
    }
  }

  PlannedData data() const {
    PlannedData data;
    const int64_t sequences = sequences_per_step(e_.train, data_ranks(e_.parallel, e_.parallel.processes));
    data.sequence_length = e_.train.sequence_length;
    data.reads_previous_losses = std::ranges::count(needs_.reads, previous_loss) > 0;
    std::optional<int64_t> windows;
    if (e_.data.kind == DataKind::records) {
      const auto rows = training_rows(e_, cache_, needs_.pairs);
      data.longest_is_known = rows.has_value();
      const int64_t offset = needs_.when ? last_offset(e_.model) : 0;
      const int64_t least = least_positions(offset, ranks_per_sequence(e_.parallel));
      if (rows) data.sequence_length = batch_positions(std::max(rows->longest, least), e_.train.sequence_length);
      if (rows) windows = rows->numbers;
    }
    data.tokens_a_step = sequences * e_.train.sequence_length;
    if (e_.train.steps > 0) data.steps = e_.train.steps;
    if (e_.data.kind != DataKind::records && (e_.train.steps == 0 || data.reads_previous_losses))
      windows = windows_of_ids();
    if (e_.train.steps == 0 && e_.data.kind != DataKind::records && windows)
      data.steps = num_steps(e_.train, *windows, data_ranks(e_.parallel, e_.parallel.processes));
    if (data.reads_previous_losses && windows)
      data.previous_losses_bytes =
          int64_t(sizeof(float)) * *windows * e_.train.sequence_length * e_.model.future_tokens;
    return data;
  }

  /// Unknown if text is not prepared yet, or files cannot be read, which the check of the inputs reports.
  std::optional<int64_t> windows_of_ids() const {
    try {
      if (e_.data.kind == DataKind::text) return prepared_text_windows(e_, cache_);
      if (e_.data.kind == DataKind::tokens) return training_windows(e_);
    } catch (const Error&) {
      return std::nullopt;
    }
    return std::nullopt;
  }

  const std::string full = Experiment().adapter.plugin;  ///< the default, which trains the whole model
  const Experiment& e_;
  const std::filesystem::path& cache_;
  const PlanStep& plan_step_;
  int64_t hosts_, shard_group_size_;
  const std::optional<Rates>& rates_;
  PluginNeeds needs_;
};

}  // namespace

ExperimentPlan plan_experiment(const Experiment& experiment, const Catalog& catalog, const std::filesystem::path& cache,
                               const PlanStep& plan_step, int64_t hosts, const std::optional<Rates>& rates) {
  return Planner(experiment, catalog, cache, plan_step, hosts, rates).plan();
}

std::vector<PlannedVariant> divided_layouts(const Experiment& experiment, const ExperimentPlan& plan,
                                            const PlanStep& plan_step, const std::optional<Rates>& rates) {
  std::vector<PlannedVariant> divided;
  const ParallelConfig& own = experiment.parallel;
  if (ranks_per_sequence(own) * own.pipeline > 1 || own.processes == 1) return divided;
  const auto variant_of = [&](Strategy strategy) -> const PlannedVariant& {
    return *std::ranges::find_if(plan.variants, [&](const PlannedVariant& variant) {
      return variant.strategy == strategy && variant.adapter == plan.variants.front().adapter;
    });
  };
  const StepRequest& q = variant_of(Strategy::full_shard).request;
  const std::vector<ModelConfig> shapes = models_of(experiment);
  const auto can_divide = [&](const ParallelConfig& parallel) {
    const int64_t ranks = ranks_per_sequence(parallel);
    const auto fits = [&](const ModelConfig& shape) { return block_misfit(shape, parallel).empty(); };
    return std::ranges::all_of(shapes, fits) && q.ranks / q.hosts % ranks == 0 && q.sequence_length % ranks == 0 &&
           q.sequence_length / ranks >= last_offset(experiment.model);
  };
  const auto add = [&](const ParallelConfig& parallel, Strategy strategy) {
    PlannedVariant variant = variant_of(strategy);
    variant.is_experiments_own = false;
    variant.request.rates = rates;
    variant.request.sequence_ranks = parallel.sequence;
    variant.request.tensor_ranks = parallel.tensor;
    variant.request.sections = parallel.pipeline;
    variant.request.gradient_accumulation *= ranks_per_sequence(parallel) * parallel.pipeline;
    // As many micro-batches as keep the bubble small.
    while (parallel.pipeline > 1 && variant.request.sequences_per_rank % 2 == 0 &&
           variant.request.gradient_accumulation < micro_batches_per_section * parallel.pipeline) {
      variant.request.sequences_per_rank /= 2;
      variant.request.gradient_accumulation *= 2;
    }
    variant.step = plan_step(variant.request);
    divided.push_back(std::move(variant));
  };
  ParallelConfig all;  // blocks divided inside hosts, the model between them
  for (int64_t ParallelConfig::*axis : {&ParallelConfig::sequence, &ParallelConfig::tensor}) {
    ParallelConfig parallel;
    for (parallel.*axis = 2; can_divide(parallel); parallel.*axis *= 2) add(parallel, Strategy::full_shard);
    if (axis == &ParallelConfig::tensor) all.tensor = parallel.tensor / 2;
  }
  // full_shard would gather every unit twice for each micro-batch.
  ParallelConfig parallel;
  for (parallel.pipeline = 2;
       parallel.pipeline <= std::min<int64_t>(num_trunk_blocks(experiment.model) + 1, most_sections) &&
       q.ranks % parallel.pipeline == 0;
       parallel.pipeline *= 2) {
    add(parallel, Strategy::shard_grad_op);
    if (q.hosts % parallel.pipeline == 0) all.pipeline = parallel.pipeline;
  }
  if (all.tensor > 1 && all.pipeline > 1) add(all, Strategy::shard_grad_op);
  return divided;
}

}  // namespace wmtp
