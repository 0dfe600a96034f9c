// Tells a repeated request to stop from the same one that arrives several times: `timeout`, systemd and Slurm signal a
// launcher and its ranks, and the launcher forwards its signal to the ranks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>

#include "base/stop_signals.hpp"

namespace wmtp {

/// The stop signals that are requests to this process: SIGINT and SIGTERM, and the others unless they are ignored, as
/// with nohup.
sigset_t handled_stop_signals();
/// The signal with which a request is passed on to our own processes.
inline int forwarded(int signal) { return signal == SIGINT ? SIGINT : SIGTERM; }

struct ReceivedSignal {
  int number = 0;
  int code = 0;      ///< si_code
  pid_t sender = 0;  ///< si_pid

  /// Whether the soft limit of computing time is used up. The kernel says so again in every second of computing.
  bool is_time_limit() const { return number == SIGXCPU && code == SI_KERNEL; }
  /// Whether a time is over: that limit, or a timer, which may go on.
  bool is_of_clock() const {
    return is_time_limit() || (code == SI_KERNEL && (number == SIGALRM || number == SIGVTALRM));
  }
  bool is_of_key() const { return code == SI_KERNEL && (number == SIGINT || number == SIGQUIT); }
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
  bool requested_ = false, by_key_ = false, by_parent_ = false;
};

/// Sends a signal that asks again, however soon after the first one.
void repeat_stop(pid_t process, int signal);

}  // namespace wmtp
