#include "engine/train/stop_signal.hpp"

#include <unistd.h>

#include <csignal>

#include "base/error.hpp"

namespace wmtp {
namespace {

volatile std::sig_atomic_t seen = 0;

void on_signal(int) {
  if (seen) _exit(int(ExitStatus::interrupted));
  seen = 1;
}

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool stop_requested() { return seen != 0; }

}  // namespace wmtp
