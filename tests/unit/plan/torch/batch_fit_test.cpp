#include "plan/batch_fit.hpp"

#include <gmock/gmock.h>

#include "plan/torch/planned.hpp"

namespace wmtp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using test::planner_of;
using test::TestPlan;

int64_t bytes_of_batch(const TestPlan& request, int64_t size) {
  return plan_batch(planner_of(request), request, size, request.gradient_accumulation).needed();
}

TEST(BatchFit, FindsTheLastBatchThatFits) {
  const TestPlan request = test::small_plan();
  for (const int64_t size : {1, 2, 3, 8, 21}) {
    const int64_t bytes = bytes_of_batch(request, size);
    EXPECT_EQ(largest_batch(planner_of(request), request, bytes)->batch_size, size);
    EXPECT_EQ(largest_batch(planner_of(request), request, bytes)->peak.total, bytes);
    EXPECT_EQ(largest_batch(planner_of(request), request, bytes_of_batch(request, size + 1) - 1)->batch_size, size);
  }
  EXPECT_FALSE(largest_batch(planner_of(request), request, bytes_of_batch(request, 1) - 1));
}

TEST(BatchFit, FindsTheLastBatchThatFitsWhereMemoryIsNotAffine) {
  const auto largest = [](const std::function<int64_t(int64_t)>& bytes_of, int64_t bytes) {
    const PlanStep plan_step = [&](const StepRequest& request) {
      PlannedStep step;
      step.phases["forward"].total = bytes_of(request.sequences_per_rank);
      return step;
    };
    return largest_batch(plan_step, StepRequest(), bytes)->batch_size;
  };
  EXPECT_EQ(largest([](int64_t size) { return std::max<int64_t>(1000, 16 * size); }, 1600), 100);
  EXPECT_EQ(largest([](int64_t size) { return size <= 37 ? 10 + size : 5000 + size; }, 4000), 37);
}

TEST(BatchFit, WhatTheAllocatorOfADeviceHoldsMustFit) {
  const PlanStep plan_step = [](const StepRequest& request) {
    PlannedStep step;
    step.phases["forward"].total = 100 * request.sequences_per_rank;
    step.reserved = 100 * request.sequences_per_rank + 250;
    return step;
  };
  const auto batch = largest_batch(plan_step, StepRequest(), 1000);
  EXPECT_EQ(batch->batch_size, 7);
  EXPECT_EQ(batch->peak.total, 700);
  EXPECT_EQ(batch->reserved, 950);
}

TEST(BatchFit, KeepsTheSequencesOfAStepByAccumulation) {
  TestPlan request = test::small_plan();
  request.gradient_accumulation = 3;  // of 4 sequences
  const auto fitted = [&](int64_t size, int64_t accumulation) {
    const auto batch = largest_batch_of_same_tokens(
        planner_of(request), request, plan_batch(planner_of(request), request, size, accumulation).peak.total);
    EXPECT_EQ(batch->batch_size * batch->gradient_accumulation, 12);
    return batch->batch_size;
  };
  EXPECT_EQ(fitted(12, 1), 12);
  EXPECT_EQ(fitted(4, 3), 4);
  EXPECT_EQ(fitted(1, 12), 1);
  EXPECT_FALSE(largest_batch_of_same_tokens(planner_of(request), request, 1));
}

ExperimentPlan plan_of(const TestPlan& experiment, const std::vector<Strategy>& strategies) {
  ExperimentPlan plan;
  for (const Strategy strategy : strategies) {
    PlannedVariant& one = plan.variants.emplace_back(PlannedVariant{"full", strategy, false, experiment, {}});
    one.request.strategy = strategy;
  }
  return plan;
}

/// So wide and long that what a device's allocator holds differs with each setting, too.
TestPlan on_four_ranks(Strategy strategy, bool on_cuda) {
  TestPlan plan = test::small_plan();
  plan.experiment.model.dim = 512;
  plan.experiment.model.ffn_dim = 1536;
  plan.experiment.model.layers = 8;
  plan.sequence_length = 2048;
  plan.strategy = strategy;
  plan.ranks = 4;
  plan.on_cuda = on_cuda;
  return plan;
}

TEST(BatchFit, NamesTheFewestChangesThatFit) {
  TestPlan sharded = on_four_ranks(Strategy::full_shard, true);
  const ExperimentPlan plan = plan_of(sharded, {Strategy::no_shard, Strategy::full_shard});
  const auto changes = [&](int64_t bytes) { return changes_that_fit(planner_of(sharded), plan, bytes); };
  EXPECT_THAT(changes(bytes_of_batch(sharded, 1)),
              testing::Contains(HasSubstr("parallel.strategy = \"full_shard\" (")));
  sharded.activation_checkpointing = 1;
  sharded.offload = CpuOffload::trained;
  EXPECT_THAT(changes(bytes_of_batch(sharded, 1)),
              ElementsAre(testing::StartsWith("parallel.strategy = \"full_shard\", "
                                              "parallel.activation_checkpointing = \"full\" and "
                                              "parallel.cpu_offload = true (")));
  EXPECT_THAT(changes(1), IsEmpty());
}

TEST(BatchFit, OffersNoOffloadingWithoutADevice) {
  TestPlan offloaded = on_four_ranks(Strategy::full_shard, false);
  const ExperimentPlan plan = plan_of(offloaded, {Strategy::full_shard});
  offloaded.offload = CpuOffload::trained;
  for (const std::string& change : changes_that_fit(planner_of(offloaded), plan, bytes_of_batch(offloaded, 1)))
    EXPECT_THAT(change, testing::Not(HasSubstr("cpu_offload")));
}

}  // namespace
}  // namespace wmtp
