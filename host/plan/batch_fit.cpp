#include "plan/batch_fit.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace wmtp {
namespace {

/// How much larger than a batch that fits another one must be to be tried.
int64_t unresolved(int64_t batch_size) { return 1 + batch_size / 256; }

bool fits(const PlannedBatch& batch, int64_t bytes) { return batch.needed() <= bytes; }

/// The settings by which a request differs from the experiment, as keys of its file.
std::vector<std::string> changes_between(const StepRequest& experiment, const StepRequest& other) {
  std::vector<std::string> changes;
  if (other.strategy != experiment.strategy)
    changes.push_back(std::string("parallel.strategy = \"") + to_string(other.strategy) + "\"" +
                      (other.strategy == Strategy::hybrid_shard ? " with shard_group_size = \"host\"" : ""));
  if (other.activation_checkpointing != experiment.activation_checkpointing)
    changes.emplace_back("parallel.activation_checkpointing = \"full\"");
  if (other.activation_offload != experiment.activation_offload)
    changes.emplace_back("parallel.activation_offload = true");
  if (other.offload != experiment.offload)
    changes.emplace_back(std::string("parallel.cpu_offload = ") +
                         (other.offload == CpuOffload::all ? "\"all\"" : "true"));
  return changes;
}

/// The request itself, and with each combination of the settings that save memory.
std::vector<StepRequest> memory_saving_requests(const StepRequest& request, bool has_frozen) {
  std::vector<StepRequest> all;
  const auto add = [&](double checkpointing, bool offload_activations, CpuOffload offload) {
    StepRequest& one = all.emplace_back(request);
    one.activation_checkpointing = std::max(request.activation_checkpointing, checkpointing);
    one.activation_offload |= offload_activations;
    one.offload = std::max(request.offload, offload);
  };
  for (const CpuOffload offload : {CpuOffload::none, CpuOffload::trained, CpuOffload::all}) {
    if (offload != CpuOffload::none && !request.on_cuda) continue;
    if (offload == CpuOffload::all && !has_frozen) continue;
    add(0, false, offload);
    add(1, false, offload);
    add(1, true, offload);
  }
  return all;
}

}  // namespace

PlannedBatch plan_batch(const PlanStep& plan_step, StepRequest request, int64_t batch_size,
                        int64_t gradient_accumulation) {
  request.sequences_per_rank = batch_size;
  request.gradient_accumulation = gradient_accumulation;
  const PlannedStep step = plan_step(request);
  const auto& [phase, peak] = *highest_phase(step.phases);
  return {batch_size, gradient_accumulation, phase, peak, step.reserved, 0};
}

std::optional<PlannedBatch> largest_batch(const PlanStep& plan_step, const StepRequest& request, int64_t bytes) {
  const auto planned = [&](int64_t size) {
    return plan_batch(plan_step, request, size, request.gradient_accumulation);
  };
  const auto at_rate = [&](const PlannedBatch& from, int64_t more_bytes, int64_t more_sequences) {
    return from.batch_size + int64_t(double(bytes - from.needed()) * double(more_sequences) / double(more_bytes));
  };
  // Tensors are affine in the batch, so that a line through two batches leads near the largest one at once; what an
  // allocator holds grows in steps. Where the peak does not depend on the batch, as in a save, the batch is doubled.
  const auto beyond = [&](const PlannedBatch& one, const PlannedBatch& most) {
    const int64_t more = most.peak.total - one.peak.total, doubled = 2 * most.batch_size;
    return more > 0 ? std::max(at_rate(most, more, most.batch_size - one.batch_size), most.batch_size) : doubled;
  };
  const PlannedBatch one = planned(1);
  if (!fits(one, bytes)) return std::nullopt;
  PlannedBatch most = one, other = planned(2);
  std::optional<PlannedBatch> too_large;
  for (bool halves = false;; halves = !halves && too_large) {
    (fits(other, bytes) ? most : too_large.emplace()) = other;
    if (!too_large) {  // beyond the line, so that the next one probably is
      other = planned(beyond(one, most) + unresolved(most.batch_size));
      continue;
    }
    const int64_t between = too_large->batch_size - most.batch_size, least = unresolved(most.batch_size);
    if (between <= least) return most;
    const int64_t next =
        halves ? most.batch_size + between / 2 : at_rate(most, too_large->needed() - most.needed(), between);
    other = planned(std::clamp(next, most.batch_size + least, too_large->batch_size - 1));
  }
}

std::optional<PlannedBatch> largest_batch_of_same_tokens(const PlanStep& plan_step, const StepRequest& request,
                                                         int64_t bytes) {
  const int64_t sequences = request.sequences_per_rank * request.gradient_accumulation;
  for (int64_t accumulation = 1; accumulation <= sequences; ++accumulation) {
    if (sequences % accumulation != 0) continue;
    const PlannedBatch batch = plan_batch(plan_step, request, sequences / accumulation, accumulation);
    if (fits(batch, bytes)) return batch;
  }
  return std::nullopt;
}

std::vector<std::string> changes_that_fit(const PlanStep& plan_step, const ExperimentPlan& plan, int64_t bytes) {
  const PlannedVariant& experiment = plan.variants.front();
  const bool has_frozen = !plan.counts().frozen.empty() || plan.counts().trained < plan.counts().parameters;
  std::vector<std::string> texts;
  size_t fewest = SIZE_MAX;
  for (const PlannedVariant& variant : plan.variants) {
    if (variant.adapter != experiment.adapter) continue;
    for (const StepRequest& request : memory_saving_requests(variant.request, has_frozen)) {
      const std::vector<std::string> changes = changes_between(experiment.request, request);
      if (changes.empty() || changes.size() > fewest) continue;
      const PlannedBatch batch = plan_batch(plan_step, request, 1, request.gradient_accumulation);
      if (!fits(batch, bytes)) continue;
      if (changes.size() < fewest) texts.clear();
      fewest = changes.size();
      const std::string text = join_names(changes) + " (" + human_bytes(batch.needed()) + ")";
      if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
    }
  }
  return texts;
}

MemoryCategory largest_category(const MemorySnapshot& snapshot) {
  return MemoryCategory(std::ranges::max_element(snapshot.bytes) - snapshot.bytes.begin());
}

}  // namespace wmtp
