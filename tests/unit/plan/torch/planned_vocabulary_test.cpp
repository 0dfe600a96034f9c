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
  plan.ranks = plan.tensor_ranks = 2;
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
    return Weights::by_source(step.valid().to(at::kFloat), /*max_nonzero_share=*/0.5);
  });
}

/// The last positions have no target, so that the ranks have different numbers of tokens.
TEST(PlannedVocabulary, RanksThatSelectTokensAgreeOnTheirCollectives) {
  for (const bool on_cuda : {false, true})
    for (const int64_t sequence : {1, 2}) {
      TestPlan plan = test::small_plan();
      plan.on_cuda = on_cuda;
      plan.ranks = 4;
      plan.tensor_ranks = 2;
      plan.sequence_ranks = sequence;
      plan.weighting = keeps_half;
      plan.compare_ranks = true;
      EXPECT_NO_THROW(planned(plan)) << (on_cuda ? "cuda" : "cpu") << ", sequence " << sequence;
    }
}

/// Of a step of two GPUs.
double operations(int64_t tensor, double share) {
  TestPlan plan = test::small_plan();
  plan.on_cuda = true;
  plan.ranks = 2;
  plan.tensor_ranks = tensor;
  plan.weighting = [share] {
    return std::make_unique<Weigh>(Needs{.when = When::head}, [share](AnyStep step) {
      return Weights::by_source(step.valid().to(at::kFloat), share);
    });
  };
  return planned(plan).work.operations;
}

TEST(PlannedVocabulary, GpusMultiplyTheSelectedTokens) {
  constexpr double products = 2 * 2 * 64;  // operations per token and id, of the gradients of hidden states and weight
  // With its half of the layer, a rank leaves 256 of 512 tokens out in each of two heads.
  EXPECT_DOUBLE_EQ(operations(2, 1) - operations(2, 0.5), products * 256 * (256 + 256));
  // With the whole of it, 254 of 508 and 252 of 504; products have a multiple of 16 rows.
  EXPECT_DOUBLE_EQ(operations(1, 1) - operations(1, 0.5), products * 512 * (508 - 256 + 504 - 256));
}

}  // namespace
}  // namespace wmtp
