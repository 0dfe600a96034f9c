#include "engine/train/stop_signal.hpp"

#include <unistd.h>

#include <csignal>

#include "base/error.hpp"
#include "process/stop_requests.hpp"

namespace wmtp {
namespace {

volatile std::sig_atomic_t seen = 0;
StopRequests requests;

void on_signal(int number, siginfo_t* info, void*) {
  if (requests.take({number, info->si_code, info->si_pid}) == StopRequests::Kind::again) {
    constexpr char text[] = "stopped by a second signal, without a new checkpoint\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    _exit(int(ExitStatus::interrupted));
  }
  seen = 1;
}

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&action.sa_mask, signal);  // one handler at a time
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool stop_requested() { return seen != 0; }

}  // namespace wmtp
