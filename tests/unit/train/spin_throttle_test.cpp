// When the throttle engages and releases, and that it stops threads from spinning.
#include "train/spin_throttle.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/time_use.hpp"

namespace wmtp {
namespace {

using std::chrono::milliseconds;

/// Processor time of parallel regions in which one thread sleeps and the other only waits for it.
double seconds_of_waiting() {
  const auto parts = [] {
    at::parallel_for(0, 2, 1, [](int64_t begin, int64_t) {
      if (begin == 0) std::this_thread::sleep_for(milliseconds{2});
    });
  };
  parts();
  const double before = processor_seconds();
  for (int i = 0; i < 50; ++i) parts();
  return processor_seconds() - before;
}

/// Exits with 0 where waiting without the sleeping team takes at least four times the processor time.
[[noreturn]] void end_by_time_of_waiting() {
  at::set_num_threads(2);
  const double spinning = seconds_of_waiting();
  double throttled = 0;
  {
    const SpinThrottle::SleepingTeam team;
    std::this_thread::sleep_for(milliseconds{200});  // until the team has started
    throttled = seconds_of_waiting();
  }
  const double spinning_again = seconds_of_waiting();
  std::fprintf(stderr, "%g s, throttled %g s, then %g s\n", spinning, throttled, spinning_again);
  std::exit(4 * throttled < spinning && 4 * throttled < spinning_again ? 0 : 1);
}

TEST(SpinThrottleDeathTest, ThreadsWaitWithoutSpinningWhileTheTeamLives) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";  // a new process: libgomp reads its variables when loaded
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  const std::string kept = policy ? policy : "";
  unsetenv("OMP_WAIT_POLICY");
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "threads spin only on two or more cores";
  EXPECT_EXIT(end_by_time_of_waiting(), testing::ExitedWithCode(0), "");
  if (!kept.empty()) setenv("OMP_WAIT_POLICY", kept.c_str(), 1);
}

/// The decisions of `count` checks: "." or, if the team is kept, "#".
std::string decisions(HoldDecision& decision, double share, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += decision.after_check(share) ? '#' : '.';
  return all;
}

TEST(HoldDecision, WaitsForThreeBusyChecksInARow) {
  HoldDecision decision;
  EXPECT_EQ(decisions(decision, 0.1, 20), std::string(20, '.'));
  EXPECT_EQ(decisions(decision, 0.5, 2), "..");
  EXPECT_EQ(decisions(decision, 0.1, 1), ".");
  EXPECT_EQ(decisions(decision, 0.5, 3), "..#");
}

TEST(HoldDecision, EndsAfterTwentyChecksIfTheMachineIsIdleAgain) {
  HoldDecision decision;
  decisions(decision, 0.5, 3);
  EXPECT_EQ(decisions(decision, 0.5, 19), std::string(19, '#')) << "threads that wake up wait, too";
  EXPECT_EQ(decisions(decision, 0.1, 20), std::string(20, '.'));
  EXPECT_EQ(decisions(decision, 0.5, 3), "..#") << "as at first";
  EXPECT_EQ(decisions(decision, 0, 20), std::string(19, '#').append(1, '.'));
}

TEST(HoldDecision, LastsLongerTheLongerTheMachineIsBusy) {
  HoldDecision decision;
  const std::string all = decisions(decision, 0.5, 1000);
  std::string wanted = "..";
  for (const int length : {20, 40, 80, 100, 100, 100, 100, 100, 100, 100, 100, 100})
    wanted.append(size_t(length), '#').append(1, '.');
  EXPECT_EQ(all, wanted.substr(0, 1000));
}

TEST(SpinThrottle, IsHeldWhileThreadsWaitForCores) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::atomic<double> rate = 0;  // seconds per check
  std::atomic<int> checks = 0;
  const auto read = [&, waited = 0.0]() mutable {
    ++checks;
    return waited += rate;
  };
  {
    SpinThrottle throttle(read);
    const auto after_checks = [&](int count) {
      for (const int until = checks + count; checks < until;) std::this_thread::sleep_for(milliseconds{5});
      return throttle.is_held();
    };
    EXPECT_FALSE(after_checks(2));
    rate = 5;
    EXPECT_TRUE(after_checks(4)) << "the fourth check starts after the third has decided";
    rate = 0;
    for (const auto late = std::chrono::steady_clock::now() + std::chrono::seconds{20};
         throttle.is_held() && std::chrono::steady_clock::now() < late;)
      std::this_thread::sleep_for(milliseconds{5});
    EXPECT_FALSE(throttle.is_held());
  }
  at::set_num_threads(1);
  SpinThrottle alone(read);
  rate = 5;
  const int checked = checks;
  std::this_thread::sleep_for(milliseconds{250});
  EXPECT_FALSE(alone.is_held()) << "a single thread waits for no other";
  EXPECT_EQ(checks, checked);
  at::set_num_threads(before);
}

TEST(SpinThrottle, CountsTheWaitingOfMoreBusyThreadsThanCores) {
  const double before = seconds_without_core();
  std::atomic<bool> end = false;
  std::vector<std::thread> crowd;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i)
    crowd.emplace_back([&] {
      while (!end) {
      }
    });
  std::this_thread::sleep_for(milliseconds{200});
  const double waited = seconds_without_core() - before;
  end = true;
  for (std::thread& thread : crowd) thread.join();
  EXPECT_GT(waited, 0.05);
}

}  // namespace
}  // namespace wmtp
