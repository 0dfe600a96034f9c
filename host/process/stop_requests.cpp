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
  if (requested_ && signal.is_of_clock()) return Kind::same;
  const bool by_key = signal.is_of_key(), by_parent = signal.code == SI_USER && signal.sender == getppid();
  const bool forwarded = by_parent && !by_parent_ && now - first_ < max_forwarding_delay;
  const bool again =
      requested_ && (signal.code == SI_QUEUE || (by_key && by_key_) || (now - first_ >= same_request && !forwarded));
  const Kind kind = again ? Kind::again : requested_ ? Kind::same : Kind::first;
  if (!requested_) first_ = now;
  requested_ = true;
  by_key_ |= by_key;
  by_parent_ |= by_parent;
  return kind;
}

void repeat_stop(pid_t process, int signal) { sigqueue(process, signal, {}); }

}  // namespace wmtp
