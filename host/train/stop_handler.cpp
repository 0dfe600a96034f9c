#include "train/stop_handler.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/error.hpp"
#include "io/signal_cleanup.hpp"
#include "process/stop_requests.hpp"

namespace wmtp {
namespace {

volatile std::sig_atomic_t seen = 0, at_once = 0, says_so = 0;
StopRequests requests;

template <size_t N>
void say(const char (&text)[N]) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, N - 1);
}

[[noreturn]] void end_at_once() {
  if (says_so) say("stopped before all ranks had met: nothing was saved\n");
  _exit(int(ExitStatus::interrupted));
}

void on_signal(int number, siginfo_t* info, void*) {
  const ReceivedSignal signal{number, info->si_code, info->si_pid};
  const StopRequests::Kind kind = requests.take(signal);
  if (kind == StopRequests::Kind::again) {
    say("stopped by a second signal, without a new checkpoint\n");
    remove_registered_folders();
    _exit(int(ExitStatus::interrupted));
  }
  if (kind == StopRequests::Kind::first && signal.is_time_limit())
    say("SIGXCPU: ulimit -t (seconds of computing) is nearly used up: saving and stopping\n");
  seen = 1;
  if (at_once) end_at_once();
}

/// At the hard limit of computing time the kernel kills, without a warning if the soft one is the same, as after
/// `ulimit -t`.
void leave_time_to_save() {
  constexpr rlim_t most_seconds = 60;
  rlimit limit{};
  if (getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_max == RLIM_INFINITY || limit.rlim_cur < limit.rlim_max) return;
  limit.rlim_cur -= std::min(limit.rlim_max / 2, std::clamp<rlim_t>(limit.rlim_max / 10, 1, most_seconds));
  setrlimit(RLIMIT_CPU, &limit);
}

}  // namespace

void install_stop_handler() {
  leave_time_to_save();
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_mask = handled_stop_signals();  // one handler at a time
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (const int signal : stop_signals)
    if (sigismember(&action.sa_mask, signal) == 1) sigaction(signal, &action, nullptr);
}

bool stop_requested() { return seen != 0; }

ImmediateStopScope::ImmediateStopScope(bool says) {
  says_so = says;
  at_once = 1;
  if (seen) end_at_once();
}

ImmediateStopScope::~ImmediateStopScope() { at_once = 0; }

}  // namespace wmtp
