#include "optimizer/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace wmtp {
namespace {

ScheduleConfig schedule(Schedule name, int64_t warmup_steps, double min_lr_ratio = 0.1) {
  return {name, warmup_steps, 0, DecayShape::linear, /*cycles=*/1, min_lr_ratio};
}

TEST(LearningRate, WarmsUpToTheFullRateAtTheLastStepOfTheWarmUp) {
  for (const Schedule name : {Schedule::constant, Schedule::cosine}) {
    const ScheduleConfig s = schedule(name, 10);
    EXPECT_DOUBLE_EQ(learning_rate(s, 2.0, 1, 100), 0.2) << to_string(name);
    EXPECT_DOUBLE_EQ(learning_rate(s, 2.0, 5, 100), 1.0) << to_string(name);
    EXPECT_DOUBLE_EQ(learning_rate(s, 2.0, 9, 100), 1.8) << to_string(name);
    EXPECT_DOUBLE_EQ(learning_rate(s, 2.0, 10, 100), 2.0) << to_string(name);
  }
}

TEST(LearningRate, IsConstantFromTheFirstStepWithoutAWarmUp) {
  for (const int64_t step : {1, 2, 50, 100})
    EXPECT_EQ(learning_rate(schedule(Schedule::constant, 0), 3e-4, step, 100), 3e-4);
}

TEST(LearningRate, DecaysByHalfACosineToItsMinimumAtTheLastStep) {
  const ScheduleConfig s = schedule(Schedule::cosine, 20);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1.0, 60, 100), 0.55) << "half way: the mean of both ends";
  EXPECT_NEAR(learning_rate(s, 1.0, 40, 100), 0.1 + 0.9 * (0.5 + std::sqrt(0.125)), 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1.0, 100, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Schedule::cosine, 20, 0.0), 1.0, 100, 100), 0.0);
  for (int64_t step = 21; step <= 100; ++step)
    EXPECT_LT(learning_rate(s, 1.0, step, 100), learning_rate(s, 1.0, step - 1, 100)) << step;
}

TEST(LearningRate, IsStableThenDecaysLinearlyToItsMinimumAtTheLastStep) {
  ScheduleConfig s = schedule(Schedule::wsd, 10);
  s.stable_steps = 50;
  EXPECT_DOUBLE_EQ(learning_rate(s, 2.0, 5, 100), 1.0);
  for (const int64_t step : {10, 11, 59, 60}) EXPECT_DOUBLE_EQ(learning_rate(s, 2.0, step, 100), 2.0) << step;
  EXPECT_DOUBLE_EQ(learning_rate(s, 2.0, 80, 100), 1.1) << "half way: the mean of both ends";
  EXPECT_DOUBLE_EQ(learning_rate(s, 2.0, 61, 100), 2.0 - 1.8 / 40);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2.0, 100, 100), 0.2);
}

TEST(LearningRate, DecaysByALine) {
  const ScheduleConfig s = schedule(Schedule::linear, 20);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1.0, 20, 100), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1.0, 60, 100), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1.0, 100, 100), 0.1);
}

TEST(LearningRate, BeginsEachOfSeveralCosinesAtTheFullRate) {
  ScheduleConfig s = schedule(Schedule::cosine, 20);
  s.cycles = 4;  // of 20 steps each
  for (const int64_t begin : {20, 40, 60, 80}) {
    EXPECT_DOUBLE_EQ(learning_rate(s, 1.0, begin, 100), 1.0) << begin;
    EXPECT_DOUBLE_EQ(learning_rate(s, 1.0, begin + 10, 100), 0.55) << begin;
  }
  EXPECT_DOUBLE_EQ(learning_rate(s, 1.0, 10, 100), 0.5) << "the warm-up is not repeated";
  EXPECT_DOUBLE_EQ(learning_rate(s, 1.0, 100, 100), 0.1) << "the last step ends a cycle and begins none";
}

TEST(LearningRate, IsStableThenDecaysByHalfACosine) {
  ScheduleConfig s = schedule(Schedule::wsd, 10);
  s.stable_steps = 50;
  s.decay = DecayShape::cosine;
  EXPECT_DOUBLE_EQ(learning_rate(s, 2.0, 60, 100), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2.0, 70, 100), 0.2 + 1.8 * (0.5 + std::sqrt(0.125)));
  EXPECT_DOUBLE_EQ(learning_rate(s, 2.0, 100, 100), 0.2);
}

TEST(LearningRate, EndsAtTheFullRateInARunOfOnlyWarmUp) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Schedule::cosine, 10), 1.0, 5, 10), 0.5);
  EXPECT_GT(learning_rate(schedule(Schedule::cosine, 10), 1.0, 10, 10), 0.0);
}

}  // namespace
}  // namespace wmtp
