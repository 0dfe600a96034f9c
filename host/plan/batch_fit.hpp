// The micro-batches that fit into a given memory. As the bytes of tensors are affine in the batch, few steps are
// planned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/experiment_plan.hpp"

namespace wmtp {

/// A micro-batch of `batch_size` sequences per rank, and the peak of a step.
struct PlannedBatch {
  int64_t batch_size = 1, gradient_accumulation = 1;
  std::string phase;  ///< with the peak
  MemorySnapshot peak;
  int64_t reserved = 0;  ///< as in PlannedStep
  double seconds = 0;    ///< of a step; 0: unknown
  int64_t needed() const { return std::max(reserved, peak.total); }
};

PlannedBatch plan_batch(const PlanStep& plan_step, StepRequest request, int64_t batch_size,
                        int64_t gradient_accumulation);

/// The largest micro-batch that fits into `bytes` per rank, at the request's gradient accumulation; nullopt if one
/// sequence does not fit. One that is larger by a sequence, or by 1/256 if that is more, does not. (What a device's
/// allocator holds may be less for more.)
std::optional<PlannedBatch> largest_batch(const PlanStep& plan_step, const StepRequest& request, int64_t bytes);

/// The same among the micro-batches that, with another accumulation, leave the tokens of a step as they are.
std::optional<PlannedBatch> largest_batch_of_same_tokens(const PlanStep& plan_step, const StepRequest& request,
                                                         int64_t bytes);

/// The fewest changes of strategy, checkpointing and offloading with which one sequence fits into `bytes`, as texts
/// with the resulting memory; empty if none do.
std::vector<std::string> changes_that_fit(const PlanStep& plan_step, const ExperimentPlan& plan, int64_t bytes);

/// The category that takes the most bytes.
MemoryCategory largest_category(const MemorySnapshot& snapshot);

}  // namespace wmtp
