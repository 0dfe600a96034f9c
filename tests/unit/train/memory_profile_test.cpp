// Promises of step/ and shard/ about memory, seen in a whole step: its bytes by phase, as memory/allocator.hpp counts
// them. One rank, so that the phases belong to this step only.
#include <gtest/gtest.h>

#include <optional>

#include "memory/allocator.hpp"
#include "support/ranks.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

using test::AnyStep;
using test::baseline;
using test::tiny_experiment;
using test::TinyTraining;
using test::Weigh;

constexpr int64_t megabyte = 1 << 20;

/// Bytes of a category at a phase's peak.
int64_t bytes_in(const std::string& phase, MemoryCategory category) {
  return memory_usage().phases.at(phase).bytes[size_t(category)];
}

class MemoryProfile : public testing::Test {
 protected:
  void SetUp() override {
    install_allocator();
    outside_.emplace("other");
    reset_memory_peak();
    before_ = memory_usage();
  }
  int64_t added(const std::string& phase, MemoryCategory category) const {
    return bytes_in(phase, category) - before_.live[size_t(category)];
  }
  MemoryUsage before_;
  std::optional<MemoryPhase> outside_;  ///< the ranks of an earlier test, which were threads, may have left another one
};

TEST_F(MemoryProfile, ATensorOfAWeightingCountsInTheHeadThatCalledIt) {
  SingleRank rank;
  TinyTraining training(tiny_experiment(),
                        std::make_unique<Weigh>(Needs{.when = When::head},
                                                [](AnyStep step) {
                                                  if (step.head() == 2) at::empty({9 * megabyte}, at::kByte);
                                                  return Weights::uniform();
                                                }),
                        rank.channels);
  training->step();
  EXPECT_GE(added("head_2", MemoryCategory::activations), 9 * megabyte);
  for (const char* phase : {"forward", "weights", "head_1", "head_3", "backward", "optimizer"})
    EXPECT_LT(added(phase, MemoryCategory::activations), megabyte) << phase;
}

TEST_F(MemoryProfile, TheLogitsOfAChunkCountInEveryHeadAndNowhereElse) {
  Experiment experiment = tiny_experiment();
  experiment.model.vocab_size = 20000;
  experiment.train.sequence_length = 100;  // 2 x 99 tokens: one chunk
  SingleRank rank;
  TinyTraining training(experiment, baseline(), rank.channels);
  training->step();
  for (int64_t head = 1; head <= 3; ++head) {
    const int64_t logits = 2 * (100 - head) * 20000 * 4;
    const int64_t found = added("head_" + std::to_string(head), MemoryCategory::logits);
    EXPECT_GE(found, logits) << head;
    EXPECT_LT(found, logits + megabyte) << head;
  }
  for (const char* phase : {"forward", "backward", "optimizer"}) EXPECT_EQ(added(phase, MemoryCategory::logits), 0);
}

TEST_F(MemoryProfile, TheOptimizerHoldsTwoMomentsAndAGradientOfEveryParameter) {
  SingleRank rank;
  TinyTraining training(tiny_experiment(), baseline(), rank.channels);
  training->step();
  int64_t elements = 0;
  for (const ParameterGroup* group : training->model().trained_groups()) elements += group->shard_size();
  EXPECT_EQ(added("optimizer", MemoryCategory::parameters), 4 * elements);
  EXPECT_EQ(added("optimizer", MemoryCategory::gradients), 4 * elements);
  const int64_t optimizer = added("optimizer", MemoryCategory::optimizer);
  EXPECT_GE(optimizer, 8 * elements);
  EXPECT_LT(optimizer, 8 * elements + 1024) << "besides the moments only one step count per group";
}

TEST_F(MemoryProfile, AStepReportsWhetherMemoryGrew) {
  int64_t wanted = 0;
  SingleRank rank;
  TinyTraining training(tiny_experiment(),
                        std::make_unique<Weigh>(Needs{},
                                                [&](AnyStep) {
                                                  at::empty({wanted}, at::kByte);
                                                  return Weights::uniform();
                                                }),
                        rank.channels);
  EXPECT_TRUE(training->step().memory_grew) << "the phases of the first step are new";
  training->step();
  training->step();
  EXPECT_FALSE(training->step().memory_grew);
  wanted = 30 * megabyte;
  EXPECT_TRUE(training->step().memory_grew);
  EXPECT_FALSE(training->step().memory_grew);
}

}  // namespace
}  // namespace wmtp
