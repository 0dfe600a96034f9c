// A process that forks for each child, so that children share what it has loaded: loading LibTorch takes 0.4 s of
// processor time, a fork of a process that has loaded it 0.02 s.
//
// A child is forked twice. Its first parent exits, and the kernel makes it a child of the ForkServer's process, which
// is its "subreaper" for that moment (prctl(2)) and then signals and reaps it like any other child.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "process/child_process.hpp"

namespace wmtp {

class ForkServer {
 public:
  /// Starts the request's program or code, which must call serve_forks(); it inherits stdout and stderr. Returns before
  /// the program serves. Errors as of ChildProcess.
  explicit ForkServer(ChildRequest request);
  ForkServer(const ForkServer&) = delete;

  /// Error(bug) if the server ended instead.
  void wait_until_ready();
  /// A child in which serve_forks() returns the request's arguments, with its environment, signal mask and streams;
  /// program, code, descriptors and before_exec do not apply. What the server has read from its environment by then is
  /// not read again. Error(storage) if the child cannot be started, Error(bug) if the server ended.
  ChildProcess start(const ChildRequest& request);

 private:
  /// The id of the started child. Throws as start().
  pid_t receive_reply();

  std::string name_;
  FileDescriptor socket_;
  std::optional<ChildProcess> server_;
  bool ready_ = false;
};

/// [in the server, while it has one thread] Returns in each child, with its arguments, and in the server, with nothing,
/// when its ForkServer is gone. stdin is the socket; in a child it is /dev/null. Error(bug) if there are other threads.
std::optional<std::vector<std::string>> serve_forks();

}  // namespace wmtp
