// SpinThrottle: controls how this process's OpenMP threads wait for each other at the end of a parallel region. On an
// idle machine they spin, which makes short parallel regions worthwhile. On a busy one a spinning thread occupies the
// core that another thread needs, and a step takes several times as long as with one thread. libgomp has no runtime
// switch for this, but it stops spinning while there are more OpenMP threads than cores (GOMP_SPINCOUNT in its manual).
// So a team of sleeping threads is kept while threads wait for cores. Whether the machine is still busy cannot be seen
// meanwhile, because a thread that sleeps also waits for a core whenever it wakes up; so the team ends from time to
// time.
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

/// Decides at each check whether the team is kept: from the third check in a row that finds threads waiting, for twenty
/// checks. If threads wait within the ten checks after it has ended, it starts again at once, for twice as long, at
/// most a hundred checks.
class HoldDecision {
 public:
  /// `share`: seconds for which threads waited for cores, summed over threads, per second since the last check.
  bool after_check(double share);

 private:
  bool holds_ = false;
  int busy_checks_ = 0;   ///< in a row
  int length_ = 0;        ///< checks, of this hold or the last one
  int since_change_ = 0;  ///< checks since the team started or ended
};

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
  HoldDecision decision_;
  std::unique_ptr<SleepingTeam> team_;
  std::atomic<bool> is_held_ = false;
  std::jthread watcher_;  ///< last member: stops before the others are destroyed
};

}  // namespace wmtp
