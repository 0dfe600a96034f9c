// One child process of the launcher: started, signalled and reaped; its output comes over pipes. [launcher process]
//
// A child leads a process group of its own and is killed by the kernel when this process ends, however that happens.
// The destructor kills and reaps the whole group: an exception on the way leaves nothing behind.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace wmtp {

struct ChildRequest {
  std::filesystem::path program;
  std::vector<std::string> arguments;    ///< argv[1..]
  std::vector<std::string> environment;  ///< "NAME=value", all of them
  bool inherit_stdout = false;           ///< our own instead of a pipe
  bool inherit_stderr = false;
  sigset_t signal_mask;  ///< what the child starts with
};

class ChildProcess {
 public:
  /// Error(storage) when it cannot be started, with the system's reason.
  explicit ChildProcess(const ChildRequest& request);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Read ends, non-blocking, owned here; -1 when inherited.
  int stdout_pipe() const { return stdout_; }
  int stderr_pipe() const { return stderr_; }

  /// The status of waitpid() once it has ended; asks without waiting.
  std::optional<int> wait_status();
  /// Waits until it has ended; the status of waitpid().
  int wait();
  /// To the child alone; nothing when it has ended.
  void send(int signal);
  /// SIGKILL to it and to all that it started in its group.
  void kill_group();

 private:
  pid_t pid_ = -1;
  int stdout_ = -1, stderr_ = -1;
  std::optional<int> status_;
};

/// The file of this program, for those that are started of it. Error(storage) where /proc does not say.
std::filesystem::path own_program(const std::filesystem::path& link = "/proc/self/exe");

/// What this process was given, by name; and such a table as a child takes it.
std::map<std::string, std::string> own_environment();
std::vector<std::string> environment_entries(const std::map<std::string, std::string>& variables);

/// "SIGKILL"; "signal 64" for one without a name.
std::string signal_name(int signal);

}  // namespace wmtp
