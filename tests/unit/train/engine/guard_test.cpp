#include "train/guard.hpp"

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

TEST(Guard, AcceptsWhatIsOrdinary) {
  Guard guard(config(5, 3));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(guard.judge(2.0 + i * 0.1, 1.0), "");
}

TEST(Guard, SkipsWhatIsNotFiniteWhateverTheWindow) {
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

TEST(Guard, IsSilentAboutSpikesUntilTheWindowIsFull) {
  Guard guard(config(5, 3));
  EXPECT_EQ(guard.judge(1.0, 1.0), "");
  EXPECT_EQ(guard.judge(100.0, 1.0), "");
  EXPECT_EQ(guard.judge(1.0, 1.0), "");
  EXPECT_EQ(guard.judge(169.0, 1.0), "") << "five times the mean of 34 is 170";
}

TEST(Guard, SkipsALossOverTheGivenTimesTheMeanAndSaysBoth) {
  Guard guard(config(5, 3));
  for (const double loss : {1.0, 2.0, 3.0}) guard.judge(loss, 1.0);
  const std::string reason = guard.judge(10.5, 1.0);
  EXPECT_TRUE(reason.starts_with("loss spike")) << reason;
  EXPECT_NE(reason.find("10.5"), std::string::npos) << reason;
  EXPECT_EQ(guard.window(), (std::deque<double>{1.0, 2.0, 3.0})) << "a skipped loss does not move the mean";
  EXPECT_EQ(guard.judge(9.5, 1.0), "");
  EXPECT_EQ(guard.window(), (std::deque<double>{2.0, 3.0, 9.5})) << "the oldest leaves";
}

TEST(Guard, SpikesAndNormsAreLetPassWhereTheLimitIsZero) {
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

TEST(Guard, GivesUpAfterTheGivenNumberInARow) {
  Guard guard(config(5, 100, 0, 3));
  guard.judge(NAN, 1);
  guard.judge(NAN, 1);
  guard.judge(1.0, 1);
  EXPECT_EQ(guard.in_a_row(), 0) << "an accepted step begins the count anew";
  guard.judge(NAN, 1);
  guard.judge(NAN, 1);
  EXPECT_FALSE(guard.gave_up());
  guard.judge(NAN, 1);
  EXPECT_TRUE(guard.gave_up());
}

TEST(Guard, GoesOnFromWhatACheckpointHolds) {
  Guard before(config(5, 2, 0, 2));
  before.judge(1.0, 1);
  before.judge(1.0, 1);
  before.judge(NAN, 1);
  Guard after(config(5, 2, 0, 2));
  after.restore(before.window(), before.in_a_row());
  EXPECT_NE(after.judge(6.0, 1), "");
  EXPECT_TRUE(after.gave_up());
}

}  // namespace
}  // namespace wmtp
