#include "data/tokens/step_count.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TrainConfig train_of(int64_t steps, double epochs) {
  TrainConfig train;
  train.steps = steps;
  train.epochs = epochs;
  train.batch_size = 2;
  train.gradient_accumulation = 5;
  return train;
}

TEST(StepCount, IsTheConfiguredNumber) { EXPECT_EQ(num_steps(train_of(17, 0), 1000, 4), 17); }

TEST(StepCount, RoundsEpochsUpToWholeSteps) {
  EXPECT_EQ(num_steps(train_of(0, 1), 100, 2), 5);
  EXPECT_EQ(num_steps(train_of(0, 1), 101, 2), 6);
  EXPECT_EQ(num_steps(train_of(0, 2.5), 100, 1), 25);
  EXPECT_EQ(num_steps(train_of(0, 0.001), 100, 1), 1);
}

TEST(StepCount, DoesNotAddAStepByRounding) {
  for (int tenths = 1; tenths <= 100; ++tenths) EXPECT_EQ(num_steps(train_of(0, tenths * 0.1), 1000, 1), tenths * 10);
}

TEST(StepCount, DividesTheRemainingSequencesAmongTheCurrentRanks) {
  EXPECT_EQ(num_steps(train_of(0, 1), 101, 2, {3, 60}), 6) << "the same ranks: as from the start";
  EXPECT_EQ(num_steps(train_of(0, 1), 100, 1, {3, 60}), 7);
  EXPECT_EQ(num_steps(train_of(0, 1), 100, 4, {3, 60}), 4);
  EXPECT_EQ(num_steps(train_of(0, 1), 100, 4, {3, 120}), 3) << "nothing is left";
  EXPECT_EQ(num_steps(train_of(17, 0), 100, 4, {3, 60}), 17);
}

TEST(StepCount, RefusesEpochsOfUnlimitedData) {
  EXPECT_THROW(num_steps(train_of(0, 1), std::numeric_limits<int64_t>::max(), 1), Error);
}

TEST(StepCount, RefusesMoreStepsThanCanBeCounted) { EXPECT_THROW(num_steps(train_of(0, 1e30), 100, 1), Error); }

}  // namespace
}  // namespace wmtp
