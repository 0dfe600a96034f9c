// SpinThrottle: controls how this process's OpenMP threads wait for each other at the end of a parallel region. On an
// idle machine they spin, which makes short parallel regions worthwhile. On a busy one a spinning thread occupies the
// core that another thread needs, and a step takes several times as long as with one thread. libgomp has no runtime
// switch for this, but it stops spinning while there are more OpenMP threads than cores (GOMP_SPINCOUNT in its manual).
// So a team of sleeping threads is kept while threads wait for cores.
//
// Results are bitwise identical: neither the number of working threads nor their shares change.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <stop_token>
#include <thread>

namespace wmtp {

/// Seconds for which threads of this process were runnable without a core, summed over threads. 0 if Linux has no
/// schedstat.
double seconds_without_core();

/// A thread checks ten times per second, so that a long step speeds up before it ends. Does nothing if LibTorch uses
/// one thread.
class SpinThrottle {
 public:
  /// [training thread, after setting its number of threads]
  explicit SpinThrottle(std::function<double()> waited = seconds_without_core);
  bool is_held() const { return is_held_; }

  /// More OpenMP threads than cores, all asleep, during its lifetime.
  class SleepingTeam {
   public:
    SleepingTeam();
    ~SleepingTeam();
    SleepingTeam(const SleepingTeam&) = delete;

   private:
    std::latch end_{1};
    std::thread leader_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  void watch(std::stop_token stop);
  void check();

  std::function<double()> read_waited_;
  Clock::time_point checked_;
  double waited_;  ///< seconds, as of the last check
  int calm_checks_ = 0;
  std::unique_ptr<SleepingTeam> team_;
  std::atomic<bool> is_held_ = false;
  std::jthread watcher_;  ///< last member: stops before the others are destroyed
};

}  // namespace wmtp
