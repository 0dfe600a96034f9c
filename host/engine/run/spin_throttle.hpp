// SpinThrottle: how the OpenMP threads of this process wait for each other at the end of a parallel part. On an idle
// machine they spin, which is what makes short parallel parts worth their while. On a busy one a thread that spins
// takes the core that the other thread needs: a step then takes several times as long as with one thread. libgomp has
// no switch for that while a program runs, but it stops spinning while there are more OpenMP threads than cores (its
// manual, GOMP_SPINCOUNT). So while threads are seen to wait for cores, a team of sleeping threads is kept.
//
// The results stay the same to the bit: neither the number of working threads nor their shares change.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <stop_token>
#include <thread>

namespace wmtp {

/// For how many seconds this process's threads have been ready to run and had no core, all together. 0 where Linux keeps
/// no schedstat.
double seconds_without_core();

/// Looks ten times a second, from a thread of its own, so that a long step is not over before it is helped. Does
/// nothing for a thread that works alone.
class SpinThrottle {
 public:
  /// [the thread that trains, its number of threads being set]
  explicit SpinThrottle(std::function<double()> waited = seconds_without_core);
  bool is_held() const { return is_held_; }

  /// More OpenMP threads than cores, all asleep, for as long as it lives.
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
  void look();

  std::function<double()> read_waited_;
  Clock::time_point looked_;
  double waited_;  ///< seconds, at the last look
  int calm_looks_ = 0;
  std::unique_ptr<SleepingTeam> team_;
  std::atomic<bool> is_held_ = false;
  std::jthread watcher_;  ///< the last member: it ends before what it uses
};

}  // namespace wmtp
