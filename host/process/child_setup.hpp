// What child_process.cpp and fork_server.cpp share: errors of system calls, and the steps between the fork of a child
// and the code that it runs.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>

namespace wmtp {

/// Error(storage): "what: description of the errno".
[[noreturn]] void throw_system(const std::string& what, int error);

/// [before a fork without exec] Error(bug) if this process has other threads, whose locks would stay locked in the
/// child. Empties the buffers of stdio, which the child would otherwise write a second time.
void prepare_fork_without_exec();

// In the child; async-signal-safe.
/// The kernel sends this process a signal when the parent's thread that started it ends; exits if that has already
/// happened.
void end_with_parent(pid_t parent, int signal = SIGKILL);
/// Restores the default actions, except that a background process may write to a terminal that has TOSTOP set.
void use_default_signals(const sigset_t& mask);
/// -1: /dev/null for `in`; `out` and `err` are inherited.
void place_standard_streams(int in, int out, int err);

}  // namespace wmtp
