#include "core/plan/batch_fit.hpp"

#include <gmock/gmock.h>

#include "core/replay/small_question.hpp"

namespace wmtp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

int64_t bytes_of_batch(const MemoryQuestion& question, int64_t size) {
  return plan_batch(question, size, question.gradient_accumulation).peak.total;
}

TEST(BatchFit, FindsTheLastBatchThatFits) {
  const MemoryQuestion question = test::small_question();
  for (const int64_t size : {1, 2, 3, 8, 21}) {
    const int64_t bytes = bytes_of_batch(question, size);
    EXPECT_EQ(largest_batch(question, bytes)->batch_size, size);
    EXPECT_EQ(largest_batch(question, bytes)->peak.total, bytes);
    EXPECT_EQ(largest_batch(question, bytes_of_batch(question, size + 1) - 1)->batch_size, size);
  }
  EXPECT_FALSE(largest_batch(question, bytes_of_batch(question, 1) - 1));
}

TEST(BatchFit, KeepsTheSequencesOfAStepByAccumulation) {
  MemoryQuestion question = test::small_question();
  question.gradient_accumulation = 3;  // of 4 sequences
  const auto fitted = [&](int64_t size, int64_t accumulation) {
    const auto batch = largest_batch_of_same_tokens(question, plan_batch(question, size, accumulation).peak.total);
    EXPECT_EQ(batch->batch_size * batch->gradient_accumulation, 12);
    return batch->batch_size;
  };
  EXPECT_EQ(fitted(12, 1), 12);
  EXPECT_EQ(fitted(4, 3), 4);
  EXPECT_EQ(fitted(1, 12), 1);
  EXPECT_FALSE(largest_batch_of_same_tokens(question, 1));
}

PlannedVariant variant(Strategy strategy, bool on_cuda) {
  PlannedVariant one{"full", strategy, false, test::small_question(), {}};
  one.question.policy.strategy = strategy;
  one.question.ranks = 4;
  one.question.on_cuda = on_cuda;
  return one;
}

TEST(BatchFit, NamesTheFewestChangesThatFit) {
  const std::vector<PlannedVariant> variants{variant(Strategy::no_shard, true), variant(Strategy::full_shard, true)};
  MemoryQuestion sharded = variants[1].question;
  EXPECT_THAT(changes_that_fit(variants, bytes_of_batch(sharded, 1)),
              testing::Contains(HasSubstr("parallel.strategy = \"full_shard\" (")));
  sharded.activation_checkpointing = 1;
  sharded.policy.offload = CpuOffload::trained;
  EXPECT_THAT(changes_that_fit(variants, bytes_of_batch(sharded, 1)),
              ElementsAre(testing::StartsWith("parallel.strategy = \"full_shard\", "
                                              "parallel.activation_checkpointing = \"full\" and "
                                              "parallel.cpu_offload = true (")));
  EXPECT_THAT(changes_that_fit(variants, 1), IsEmpty());
}

TEST(BatchFit, OffersNoOffloadingWithoutADevice) {
  const std::vector<PlannedVariant> variants{variant(Strategy::full_shard, false)};
  MemoryQuestion offloaded = variants[0].question;
  offloaded.policy.offload = CpuOffload::trained;
  for (const std::string& change : changes_that_fit(variants, bytes_of_batch(offloaded, 1)))
    EXPECT_THAT(change, testing::Not(HasSubstr("cpu_offload")));
}

}  // namespace
}  // namespace wmtp
