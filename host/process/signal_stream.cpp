#include "process/signal_stream.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

namespace wmtp {

SignalStream::SignalStream() {
  std::signal(SIGCHLD, SIG_DFL);  // if SIGCHLD were inherited as ignored, children would leave no status
  sigset_t wanted = handled_stop_signals();
  sigaddset(&wanted, SIGCHLD);
  sigprocmask(SIG_BLOCK, &wanted, &before_);
  fd_ = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

SignalStream::~SignalStream() {
  close(fd_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<ReceivedSignal> SignalStream::next() const {
  signalfd_siginfo info;
  if (read(fd_, &info, sizeof info) != sizeof info) return std::nullopt;
  return ReceivedSignal{int(info.ssi_signo), info.ssi_code, pid_t(info.ssi_pid)};
}

}  // namespace wmtp
