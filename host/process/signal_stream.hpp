// Signals for a process that looks after children: they come as bytes to poll for, instead of ending it.
#pragma once

#include <csignal>

namespace wmtp {

/// SIGINT, SIGTERM, SIGHUP and SIGCHLD as a file descriptor, for as long as this lives.
class SignalStream {
 public:
  SignalStream();
  ~SignalStream();
  SignalStream(const SignalStream&) = delete;

  int fd() const { return fd_; }
  /// What a child is to start with.
  const sigset_t& mask_before() const { return before_; }
  /// The next one that came in, or 0.
  int next() const;

 private:
  sigset_t before_;
  int fd_;
};

/// A reader that went away is an error of write(), which the sinks know how to take.
class IgnoredPipeSignal {
 public:
  IgnoredPipeSignal() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  ~IgnoredPipeSignal() { std::signal(SIGPIPE, before_); }
  IgnoredPipeSignal(const IgnoredPipeSignal&) = delete;

 private:
  void (*before_)(int);
};

}  // namespace wmtp
