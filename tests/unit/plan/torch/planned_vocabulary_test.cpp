// What is planned of an embedding and an output layer that tensor ranks divide (model/torch/embedding.hpp,
// model/torch/vocabulary_split.hpp).
#include <gtest/gtest.h>

#include "plan/torch/planned.hpp"

namespace wmtp {
namespace {

using test::AnyStep;
using test::planned;
using test::TestPlan;
using test::Weigh;

/// Bytes of one kind while the trunk is computed.
int64_t bytes_of(MemoryCategory category, int64_t vocab_size) {
  TestPlan plan = test::small_plan();
  plan.experiment.model.vocab_size = vocab_size;
  plan.strategy = Strategy::no_shard;
  plan.ranks = plan.tensor = 2;
  return planned(plan).phases.at("forward").bytes[size_t(category)];
}

TEST(PlannedVocabulary, IsHalfOnEachOfTwoRanksThatHaveEqualParts) {
  constexpr int64_t id = 64 * 4;                           // bytes in fp32
  constexpr int64_t whole = 514, half = 512 / 2;           // 513 ids, padded for two ranks, have no equal parts
  constexpr int64_t difference = 2 * (whole - half) * id;  // of the embedding and the output layer
  EXPECT_EQ(bytes_of(MemoryCategory::parameters, 513) - bytes_of(MemoryCategory::parameters, 512), difference);
  EXPECT_EQ(bytes_of(MemoryCategory::optimizer, 513) - bytes_of(MemoryCategory::optimizer, 512), 2 * difference);
}

/// Half of the tokens, as their weighting states.
std::unique_ptr<Weighting> keeps_half() {
  return std::make_unique<Weigh>(Needs{.when = When::head}, [](AnyStep step) {
    return Weights::by_source(step.valid().to(at::kFloat), /*share=*/0.5);
  });
}

/// The last positions have no target, so that the ranks have different numbers of tokens.
TEST(PlannedVocabulary, RanksThatSelectTokensAgreeOnTheirCollectives) {
  for (const bool on_cuda : {false, true})
    for (const int64_t sequence : {1, 2}) {
      TestPlan plan = test::small_plan();
      plan.on_cuda = on_cuda;
      plan.ranks = 4;
      plan.tensor = 2;
      plan.sequence = sequence;
      plan.weighting = keeps_half;
      plan.compare_ranks = true;
      EXPECT_NO_THROW(planned(plan)) << (on_cuda ? "cuda" : "cpu") << ", sequence " << sequence;
    }
}

TEST(PlannedVocabulary, SelectedTokensAreMultipliedOnGpusThatDivideIt) {
  TestPlan plan = test::small_plan();
  plan.on_cuda = true;
  plan.ranks = plan.tensor = 2;
  plan.weighting = keeps_half;
  const double half = planned(plan).work.operations;
  plan.weighting = [] {
    return std::make_unique<Weigh>(Needs{.when = When::head},
                                   [](AnyStep step) { return Weights::by_source(step.valid().to(at::kFloat)); });
  };
  // With its half of the layer, a rank leaves 256 of 512 tokens out of two products of each of two heads.
  EXPECT_DOUBLE_EQ(planned(plan).work.operations - half, 2 * 256 * 2 * 2.0 * 256 * 64);
}

}  // namespace
}  // namespace wmtp
