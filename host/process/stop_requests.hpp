// Tells a repeated request to stop from the same one that arrives several times: `timeout`, systemd and Slurm signal a
// launcher and its ranks, and the launcher forwards its signal to the ranks.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <csignal>

namespace wmtp {

/// What terminals, service managers and batch systems send before they kill: Slurm SIGUSR1 (--signal), SGE SIGUSR2 and
/// SIGXCPU, which the kernel sends at the soft limit of computing time.
inline constexpr std::array stop_signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};
/// Those that are requests to this process: SIGINT and SIGTERM, and the others unless they are ignored, as with nohup.
sigset_t handled_stop_signals();
/// The signal with which a request is passed on to our own processes.
inline int forwarded(int signal) { return signal == SIGINT ? SIGINT : SIGTERM; }

struct ReceivedSignal {
  int number = 0;
  int code = 0;      ///< si_code
  pid_t sender = 0;  ///< si_pid

  /// Whether the soft limit of computing time is used up. The kernel says so again in every second of computing.
  bool is_time_limit() const { return number == SIGXCPU && code == SI_KERNEL; }
};

/// The stop signals of one process. Async-signal-safe.
class StopRequests {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Kind {
    first,
    same,  ///< the first one once more: ignore it
    again  ///< somebody is impatient: stop without saving
  };
  /// A request is repeated by a signal that comes a second later, by a person who presses Ctrl-C twice, and by
  /// repeat_stop(). The parent may forward the first one much later, on a busy machine.
  Kind take(const ReceivedSignal& signal, Clock::time_point now = Clock::now());

 private:
  Clock::time_point first_{};
  bool requested_ = false, by_terminal_ = false, by_parent_ = false;
};

/// Sends a signal that asks again, however soon after the first one.
void repeat_stop(pid_t process, int signal);

}  // namespace wmtp
