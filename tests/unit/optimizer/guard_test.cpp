#include "optimizer/guard.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace wmtp {
namespace {

GuardConfig config(double loss_spike, int64_t window, double grad_norm = 0, int64_t max_in_a_row = 10) {
  GuardConfig config;
  config.loss_spike = loss_spike;
  config.window = window;
  config.grad_norm = grad_norm;
  config.max_in_a_row = max_in_a_row;
  return config;
}

TEST(Guard, SkipsNoFiniteLossByDefault) {
  Guard guard{GuardConfig()};
  for (int i = 0; i < 150; ++i) EXPECT_EQ(guard.judge(1e-3, 1.0), "");
  EXPECT_EQ(guard.judge(0.4, 1.0), "") << "a critic's rare batch with a mistake";
  EXPECT_EQ(guard.judge(1e9, 1e9), "");
}

TEST(Guard, AcceptsOrdinarySteps) {
  Guard guard(config(5, 3));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(guard.judge(2.0 + i * 0.1, 1.0), "");
}

TEST(Guard, SkipsNonFiniteStepsWithAnyWindow) {
  Guard guard(config(5, 3));
  EXPECT_EQ(guard.judge(NAN, 1.0), "not finite");
  EXPECT_EQ(guard.judge(INFINITY, 1.0), "not finite");
  EXPECT_EQ(guard.judge(1.0, NAN), "not finite");
  EXPECT_EQ(guard.judge(1.0, INFINITY), "not finite");
  EXPECT_TRUE(guard.window().empty());
}

TEST(Guard, ANanNeverEntersTheWindow) {
  Guard guard(config(5, 2));
  guard.judge(1.0, 1.0);
  guard.judge(NAN, 1.0);
  guard.judge(1.0, 1.0);
  EXPECT_EQ(guard.window(), (std::deque<double>{1.0, 1.0}));
  EXPECT_EQ(guard.judge(1.0, 1.0), "");
  EXPECT_NE(guard.judge(6.0, 1.0), "") << "a NaN in the mean would let every spike pass";
}

TEST(Guard, DetectsNoSpikeUntilTheWindowIsFull) {
  Guard guard(config(5, 3));
  EXPECT_EQ(guard.judge(1.0, 1.0), "");
  EXPECT_EQ(guard.judge(100.0, 1.0), "");
  EXPECT_EQ(guard.judge(1.0, 1.0), "");
  EXPECT_EQ(guard.judge(267.0, 1.0), "") << "the mean is 34, and five deviations are 233.3";
}

TEST(Guard, SkipsALossSpikeAndReportsMeanAndDeviation) {
  Guard guard(config(5, 3));
  for (const double loss : {1.0, 2.0, 3.0}) guard.judge(loss, 1.0);
  const std::string reason = guard.judge(6.1, 1.0);  // the mean is 2, a deviation sqrt(2/3)
  EXPECT_TRUE(reason.starts_with("loss spike: 6.1 exceeds the mean 2 of 3 steps")) << reason;
  EXPECT_NE(reason.find("guard.loss_spike = 5 deviations of 0.8165"), std::string::npos) << reason;
  EXPECT_EQ(guard.window(), (std::deque<double>{1.0, 2.0, 3.0})) << "a skipped loss does not move the mean";
  EXPECT_EQ(guard.judge(6.0, 1.0), "");
  EXPECT_EQ(guard.window(), (std::deque<double>{2.0, 3.0, 6.0})) << "the oldest is dropped";
}

TEST(Guard, ARiseBelowTheFloorIsNoSpikeEvenWithASmallDeviation) {
  Guard guard(config(5, 3));
  for (const double loss : {0.001, 0.002, 0.001}) guard.judge(loss, 1.0);
  EXPECT_EQ(guard.judge(0.9, 1.0), "") << "hundreds of deviations, and less than spike_floor = 1";
  for (const double loss : {0.001, 0.002, 0.001}) guard.judge(loss, 1.0);
  EXPECT_NE(guard.judge(1.1, 1.0), "");
}

TEST(Guard, SkipsALossOverAMultipleOfTheMean) {
  GuardConfig ratio = config(0, 3);
  ratio.loss_ratio = 5;
  Guard guard(ratio);
  for (const double loss : {1.0, 2.0, 3.0}) EXPECT_EQ(guard.judge(loss, 1.0), "");
  const std::string reason = guard.judge(10.1, 1.0);
  EXPECT_TRUE(reason.starts_with("loss spike: 10.1 exceeds guard.loss_ratio = 5 times the mean 2 of 3 steps"))
      << reason;
  EXPECT_NE(reason.find("(guard.loss_ratio = 0 disables this limit)"), std::string::npos) << reason;
  EXPECT_EQ(guard.judge(10.0, 1.0), "") << "the limit itself is accepted, and moves the mean to 5";
  EXPECT_EQ(guard.judge(24.9, 1.0), "");
}

TEST(Guard, AMeanOfZeroOrLessHasNoMultipleThatIsExceeded) {
  GuardConfig ratio = config(0, 3);
  ratio.loss_ratio = 5;
  for (const double level : {-4.0, 0.0}) {
    Guard guard(ratio);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(guard.judge(level + 0.1 * i, 1.0), "") << level;
  }
}

TEST(Guard, DetectsSpikesOfNegativeLosses) {
  Guard guard(config(5, 3));
  for (const double loss : {-4.0, -4.1, -3.9, -4.2, -3.8, -4.4}) EXPECT_EQ(guard.judge(loss, 1.0), "") << loss;
  EXPECT_EQ(guard.judge(-3.2, 1.0), "");
  EXPECT_NE(guard.judge(-0.5, 1.0), "");
}

TEST(Guard, TheFirstSkippedStepNamesTheKeyThatDisablesTheLimit) {
  Guard guard(config(5, 2, 2.0));
  EXPECT_EQ(guard.judge(NAN, 1.0), "not finite") << "no key allows that";
  const std::string first = guard.judge(1.0, 2.5), second = guard.judge(1.0, 2.5);
  EXPECT_NE(first.find("skipped steps do not train on their data (guard.grad_norm = 0"), std::string::npos) << first;
  EXPECT_TRUE(second.starts_with("gradient norm")) << second;
  EXPECT_EQ(second.find("skipped steps do not train"), std::string::npos) << "stated only once: " << second;
}

TEST(Guard, ALimitOfZeroAcceptsSpikesAndNorms) {
  Guard guard(config(0, 1, 0));
  guard.judge(1.0, 1.0);
  EXPECT_EQ(guard.judge(1e9, 1e9), "");
}

TEST(Guard, SkipsAGradientNormOverItsLimit) {
  Guard guard(config(0, 3, 2.0));
  EXPECT_EQ(guard.judge(1.0, 2.0), "");
  const std::string reason = guard.judge(1.0, 2.5);
  EXPECT_TRUE(reason.starts_with("gradient norm")) << reason;
}

TEST(Guard, GivesUpAfterTheConfiguredConsecutiveSkips) {
  Guard guard(config(5, 100, 0, 3));
  guard.judge(NAN, 1);
  guard.judge(NAN, 1);
  guard.judge(1.0, 1);
  EXPECT_EQ(guard.in_a_row(), 0) << "an accepted step resets the count";
  guard.judge(NAN, 1);
  guard.judge(NAN, 1);
  EXPECT_FALSE(guard.gave_up());
  guard.judge(NAN, 1);
  EXPECT_TRUE(guard.gave_up());
}

TEST(Guard, ContinuesFromARestoredState) {
  Guard before(config(5, 2, 0, 2));
  before.judge(1.0, 1);
  before.judge(1.0, 1);
  before.judge(NAN, 1);
  Guard after(config(5, 2, 0, 2));
  after.restore(before.window(), before.in_a_row());
  EXPECT_NE(after.judge(6.0, 1), "");
  EXPECT_TRUE(after.gave_up());
}

TEST(Guard, AStepWithoutALossIsJudgedByItsGradientAndStaysOutOfTheWindow) {
  Guard guard(config(5, 2));
  guard.judge(1.0, 1.0);
  EXPECT_EQ(guard.judge(std::nullopt, 0.0), "");
  EXPECT_EQ(guard.window(), (std::deque<double>{1.0}));
  EXPECT_EQ(guard.judge(std::nullopt, NAN), "not finite");
  guard.judge(1.0, 1.0);
  EXPECT_EQ(guard.judge(std::nullopt, 1.0), "");
}

}  // namespace
}  // namespace wmtp
