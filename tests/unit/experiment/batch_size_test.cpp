#include "experiment/batch_size.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

Experiment of_batches(int64_t batch_size, int64_t gradient_accumulation, int64_t global_batch_size) {
  Experiment e;
  e.train.batch_size = batch_size;
  e.train.gradient_accumulation = gradient_accumulation;
  e.train.global_batch_size = global_batch_size;
  return e;
}

TEST(BatchSize, OfAStepIsThatOfAllMicroBatchesAndRanks) {
  const TrainConfig train = of_batches(2, 5, 0).train;
  EXPECT_EQ(sequences_per_step(train, 2), 20);
  EXPECT_EQ(micro_batches(train, 2), 5);
}

TEST(BatchSize, OfAGlobalBatchIsFilledByMicroBatchesOfAnyNumberOfRanks) {
  const TrainConfig train = of_batches(2, 1, 24).train;
  for (const auto& [ranks, micros] : {std::pair{1, 12}, {2, 6}, {3, 4}, {12, 1}}) {
    EXPECT_EQ(sequences_per_step(train, ranks), 24) << ranks;
    EXPECT_EQ(micro_batches(train, ranks), micros) << ranks;
  }
}

TEST(BatchSize, NamesTheNearestGlobalBatchesThatTheRanksFill) {
  EXPECT_EQ(global_batch_misfit(of_batches(2, 1, 24), 4), "");
  EXPECT_EQ(global_batch_misfit(of_batches(2, 3, 0), 5), "") << "not given";
  EXPECT_EQ(global_batch_misfit(of_batches(2, 1, 24), 5),
            "found global_batch_size 24 for 5 ranks x batch_size 2, wanted a multiple of 10: for example 20 or 30");
  EXPECT_EQ(global_batch_misfit(of_batches(8, 1, 24), 4),
            "found global_batch_size 24 for 4 ranks x batch_size 8, wanted a multiple of 32: for example 32");
}

TEST(BatchSize, CountsRanksThatDivideASequenceOnce) {
  Experiment e = of_batches(4, 1, 8);
  e.parallel.sequence = 2;
  EXPECT_EQ(global_batch_misfit(e, 4), "");
  EXPECT_EQ(global_batch_misfit(e, 6),
            "found global_batch_size 8 for 3 ranks that read different sequences x batch_size 4, wanted a multiple of "
            "12: for example 12");
}

}  // namespace
}  // namespace wmtp
