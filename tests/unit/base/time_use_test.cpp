// A thread's time counts for the innermost scope, each moment once.
#include "base/time_use.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>

namespace wmtp {
namespace {

using namespace std::chrono_literals;

double total(const std::map<std::string, double>& used) {
  double sum = 0;
  for (const auto& [name, seconds] : used) sum += seconds;
  return sum;
}

TEST(TimeUse, CountsForTheInnermostScopeThenForTheOuterOne) {
  reset_time_used();
  const auto start = std::chrono::steady_clock::now();
  {
    const TimeScope outer("outer");
    {
      const TimeScope inner("inner");
      std::this_thread::sleep_for(30ms);
    }
    std::this_thread::sleep_for(10ms);
  }
  const auto used = time_used();
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_GE(used.at("inner"), 0.030);
  EXPECT_GE(used.at("outer"), 0.010);
  EXPECT_LE(used.at("inner") + used.at("outer"), passed) << "a moment counts once";
  EXPECT_EQ(time_used("inner"), used.at("inner"));
  EXPECT_EQ(time_used("nobody"), 0);
}

TEST(TimeUse, AddsUpToTheTimeSinceItWasReset) {
  { const TimeScope before("before"); }
  reset_time_used();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    const TimeScope scope(i % 2 ? "odd" : "even");
    std::this_thread::sleep_for(100us);
  }
  const double sum = total(time_used());
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LE(sum, passed + 1e-4) << "the clock was read a moment earlier when it was forgotten";
  EXPECT_GE(sum, 0.010);
  EXPECT_EQ(time_used("before"), 0);
}

/// A device that takes a second for the work between two marks.
class SlowDevice : public DeviceClock {
 public:
  void mark() override { ++marks_; }
  std::vector<double> passed() override {
    std::vector<double> seconds(size_t(reached - std::exchange(reported_, reached)), 1.0);
    return seconds;
  }
  int reached = 0;
  int num_marks() const { return marks_; }

 private:
  int marks_ = 0, reported_ = 0;
};

TEST(TimeUse, OfADeviceCountsForTheScopesInWhichItsWorkWasLaunched) {
  std::thread([] {
    SlowDevice device;
    use_device_clock(device);
    {
      const TimeScope outer("outer");
      const TimeScope inner("inner");
    }
    EXPECT_EQ(time_used("outer") + time_used("inner"), 0) << "the device has not begun";
    device.reached = 3;  // before outer, before inner, inner
    EXPECT_EQ(time_used("inner"), 1);
    EXPECT_EQ(time_used("outer"), 1);
    device.reached = 4;
    EXPECT_EQ(time_used("outer"), 2) << "after the inner one";
    EXPECT_GT(device.num_marks(), 4);
  }).join();
}

TEST(TimeUse, IsSeparateForEachThread) {
  reset_time_used();
  std::thread([] {
    const TimeScope scope("elsewhere");
    std::this_thread::sleep_for(1ms);
  }).join();
  EXPECT_EQ(time_used("elsewhere"), 0);
}

}  // namespace
}  // namespace wmtp
