// Signals as a pollable file descriptor, for a process that waits for children.
#pragma once

#include <csignal>
#include <optional>

#include "process/stop_requests.hpp"

namespace wmtp {

/// handled_stop_signals() and SIGCHLD as a file descriptor while this exists.
class SignalStream {
 public:
  SignalStream();
  ~SignalStream();
  SignalStream(const SignalStream&) = delete;

  int fd() const { return fd_; }
  /// The signal mask for children.
  const sigset_t& previous_mask() const { return before_; }
  /// The next received signal, if there is one.
  std::optional<ReceivedSignal> next() const;

 private:
  sigset_t before_;
  int fd_;
};

/// Ignores SIGPIPE, so that writing to a closed pipe fails with EPIPE, which LineSink handles.
class IgnoreSigpipe {
 public:
  IgnoreSigpipe() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  ~IgnoreSigpipe() { std::signal(SIGPIPE, before_); }
  IgnoreSigpipe(const IgnoreSigpipe&) = delete;

 private:
  void (*before_)(int);
};

}  // namespace wmtp
