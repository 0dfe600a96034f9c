#include "process/stop_requests.hpp"

#include <unistd.h>

namespace wmtp {
namespace {

constexpr std::chrono::seconds same_request{1}, max_forwarding_delay{10};

}  // namespace

sigset_t handled_stop_signals() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : stop_signals) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (signal == SIGINT || signal == SIGTERM || now.sa_handler != SIG_IGN) sigaddset(&taken, signal);
  }
  return taken;
}

StopRequests::Kind StopRequests::take(const ReceivedSignal& signal, Clock::time_point now) {
  if (requested_ && signal.is_time_limit()) return Kind::same;
  // The kernel may send SIGHUP several times when a terminal closes.
  const bool by_terminal = signal.code == SI_KERNEL && signal.number != SIGHUP && !signal.is_time_limit(),
             by_parent = signal.code == SI_USER && signal.sender == getppid();
  const bool forwarded = by_parent && !by_parent_ && now - first_ < max_forwarding_delay;
  const bool again = requested_ && (signal.code == SI_QUEUE || (by_terminal && by_terminal_) ||
                                    (now - first_ >= same_request && !forwarded));
  const Kind kind = again ? Kind::again : requested_ ? Kind::same : Kind::first;
  if (!requested_) first_ = now;
  requested_ = true;
  by_terminal_ |= by_terminal;
  by_parent_ |= by_parent;
  return kind;
}

void repeat_stop(pid_t process, int signal) { sigqueue(process, signal, {}); }

}  // namespace wmtp
