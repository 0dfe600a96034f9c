#include "process/child_setup.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>

#include "base/error.hpp"
#include "base/stop_signals.hpp"

namespace wmtp {

void throw_system(const std::string& what, int error) {
  throw Error(ExitStatus::storage, what + ": " + std::strerror(error));
}

void prepare_fork_without_exec() {
  using Iterator = std::filesystem::directory_iterator;
  if (const auto threads = std::distance(Iterator("/proc/self/task"), Iterator()); threads != 1)
    throw Error(ExitStatus::bug,
                "cannot fork: found " + std::to_string(threads) + " threads in this process, wanted 1");
  std::fflush(nullptr);
}

void end_with_parent(pid_t parent, int signal) {
  prctl(PR_SET_PDEATHSIG, signal);
  if (getppid() != parent) _exit(127);  // the parent ended before the line above took effect
}

void use_default_signals(const sigset_t& mask) {
  // Ignored signals stay ignored over exec: nohup and background jobs of a plain shell start us with SIGINT ignored.
  for (const int signal : stop_signals) std::signal(signal, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGTTOU, SIG_IGN);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
}

void place_standard_streams(int in, int out, int err) {
  if (in < 0) in = open("/dev/null", O_RDONLY);
  if (in >= 0) dup2(in, STDIN_FILENO);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  if (err >= 0) dup2(err, STDERR_FILENO);
}

}  // namespace wmtp
