#include "launch/launcher_stop_handler.hpp"

#include <poll.h>
#include <unistd.h>

#include <string_view>

#include "base/error.hpp"
#include "io/signal_cleanup.hpp"

namespace wmtp {
namespace {

constexpr std::string_view before = "warning: stopped before the run began: nothing was saved\n",
                           after = "warning: stopped after its ranks had ended: what they saved is kept\n";
volatile std::sig_atomic_t have_run = 0, are_recorded = 1, has_waited = 0;
StopRequests requests;

void on_signal(int number, siginfo_t* info, void*) {
  const bool may_wait = !are_recorded || has_waited;
  if (may_wait && requests.take({number, info->si_code, info->si_pid}) != StopRequests::Kind::again) {
    has_waited = 1;
    return;
  }
  const std::string_view text = have_run ? after : before;
  pollfd reader{STDERR_FILENO, POLLOUT, 0};
  if (poll(&reader, 1, 0) == 1) {  // else nobody reads
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }
  remove_registered_folders();
  _exit(int(ExitStatus::interrupted));
}

}  // namespace

LauncherStopHandler::LauncherStopHandler() {
  have_run = 0;
  are_recorded = 1;
  has_waited = 0;
  requests = StopRequests();
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  action.sa_mask = handled_stop_signals();
  for (size_t i = 0; i < stop_signals.size(); ++i)
    sigaction(stop_signals[i], sigismember(&action.sa_mask, stop_signals[i]) == 1 ? &action : nullptr, &before_[i]);
}

LauncherStopHandler::~LauncherStopHandler() {
  for (size_t i = 0; i < stop_signals.size(); ++i) sigaction(stop_signals[i], &before_[i], nullptr);
}

void note_ranks_start() {
  have_run = 1;
  are_recorded = 0;
}

bool note_ranks_recorded() {
  are_recorded = 1;
  return has_waited != 0;
}

}  // namespace wmtp
