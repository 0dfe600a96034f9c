// The remaining time of a run, from the times that its parts took.
#include "job/time_left.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TimeLeft after(const TimeLeft::Plan& plan, int64_t steps, double seconds) {
  TimeLeft time(plan);
  for (int64_t step = plan.first_step; step < plan.first_step + steps; ++step) time.step(step, seconds);
  return time;
}

TEST(TimeLeft, IsThatOfTheStepsThatAreLeft) {
  EXPECT_DOUBLE_EQ(after({1, 100, 0}, 10, 2.0).seconds_after(10), 180);
  EXPECT_DOUBLE_EQ(after({51, 100, 0}, 10, 2.0).seconds_after(60), 80) << "a run that was resumed";
}

TEST(TimeLeft, CountsTheValidationsThatAreDueAndTheOneAtTheEnd) {
  TimeLeft time = after({1, 200, 50}, 50, 1.0);
  time.validation(10);
  EXPECT_DOUBLE_EQ(time.seconds_after(49), 151 + 40);
  EXPECT_DOUBLE_EQ(time.seconds_after(50), 150 + 40) << "its own validation comes after the step";
  EXPECT_DOUBLE_EQ(time.seconds_after(51), 149 + 30);
  EXPECT_DOUBLE_EQ(time.seconds_after(199), 1 + 10);
  EXPECT_DOUBLE_EQ(time.seconds_after(200), 10) << "the one at the end is of the last step too";
}

TEST(TimeLeft, CountsOneValidationWhereNoneIsBetween) {
  TimeLeft time = after({1, 10, 0}, 5, 1.0);
  time.validation(7);
  EXPECT_DOUBLE_EQ(time.seconds_after(5), 5 + 7);
}

TEST(TimeLeft, CountsTheLastSaveOnceASaveWasSeen) {
  TimeLeft time = after({1, 10, 0}, 5, 1.0);
  EXPECT_DOUBLE_EQ(time.seconds_after(5), 5);
  time.save(3);
  EXPECT_DOUBLE_EQ(time.seconds_after(5), 5 + 3);
}

TEST(TimeLeft, DoesNotMeasureByTheFirstStepOnceThereIsAnother) {
  TimeLeft time({1, 101, 0});
  time.step(1, 30);
  EXPECT_DOUBLE_EQ(time.seconds_after(1), 3000);
  time.step(2, 1);
  EXPECT_DOUBLE_EQ(time.seconds_after(2), 99);
}

TEST(TimeLeft, FollowsSpeedThatChanges) {
  TimeLeft time = after({1, 1000, 0}, 10, 1.0);
  for (int64_t step = 11; step <= 60; ++step) time.step(step, 2.0);
  EXPECT_NEAR(time.seconds_after(60), 940 * 2.0, 940 * 0.02);
}

}  // namespace
}  // namespace wmtp
