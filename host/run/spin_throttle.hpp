// SpinThrottle: how the OpenMP threads of this process wait for each other at the end of a parallel part. On an idle
// machine they spin, which is what makes short parallel parts worth their while. On a busy one a thread that spins
// takes the core that the other thread needs: a step then takes several times as long as with one thread. libgomp has
// no switch for that while a program runs, but it stops spinning while there are more OpenMP threads than cores (its
// manual, GOMP_SPINCOUNT). So while threads are seen to wait for cores, a team of sleeping threads is kept.
//
// The results stay the same to the bit: neither the number of working threads nor their shares change.
#pragma once

#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <utility>

namespace wmtp {

/// For how many seconds this process's threads have been ready to run and had no core, all together. 0 where Linux keeps
/// no schedstat.
double seconds_without_core();

class SpinThrottle {
 public:
  explicit SpinThrottle(std::function<double()> waited = seconds_without_core) : read_waited_(std::move(waited)) {}
  /// [the thread that trains] To be called now and then, after each step say: looks how long this process's threads have
  /// waited for a core since it last looked, a tenth of a second ago or more. Does nothing in a process of one thread.
  void look();
  bool is_held() const { return team_ != nullptr; }

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
  std::function<double()> read_waited_;
  Clock::time_point looked_ = {};
  double waited_ = 0;  ///< seconds, at the last look
  int calm_looks_ = 0;
  std::unique_ptr<SleepingTeam> team_;
};

}  // namespace wmtp
