// Child processes: starts, signals, reaps them and reads their output.
//
// A child leads its own process group. The kernel kills it, or sends it ChildRequest::parent_death_signal, when the
// thread that started it ends. When the child has ended, the rest of its group is killed. The destructor kills and
// reaps the whole group.
//
// Uses fork() and execve() because posix_spawn() supports neither PR_SET_PDEATHSIG nor before_exec. Between the two,
// the child makes only async-signal-safe calls, so other threads of this process are harmless. A child may also run
// code of this process without exec, if this process has no other threads.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"

namespace wmtp {

/// Both ends are close-on-exec.
struct Pipe {
  static Pipe open();  ///< Error(storage)
  FileDescriptor read_end, write_end;
};

std::map<std::string, std::string> own_environment();
/// "NAME=value" for each variable.
std::vector<std::string> environment_entries(const std::map<std::string, std::string>& variables);

struct ChildRequest {
  std::filesystem::path program;
  std::vector<std::string> arguments;  ///< argv[1..]
  std::vector<std::string> environment = environment_entries(own_environment());
  int input = -1;               ///< stdin; -1: /dev/null
  bool inherit_stdout = false;  ///< instead of a pipe
  bool inherit_stderr = false;
  sigset_t signal_mask{};             ///< for the child; empty by default
  int parent_death_signal = SIGKILL;  ///< the signal that the child gets when this thread ends
  /// If not empty: becomes the child's descriptors 0, 1, …; all others are closed, and the child leads a session.
  std::vector<int> descriptors;
  /// [in the child, immediately before exec] System calls only. False, with errno: the child is not started.
  std::function<bool()> before_exec;
  /// Runs in the child instead of a program and returns its exit code; the child has only its standard streams open.
  std::function<int()> code;
};

class ChildProcess {
 public:
  /// Returns after exec. Error(storage) with the cause if the child cannot be started; Error(bug) if it is to run
  /// `code` and this process has other threads, whose locks would stay locked in the child.
  explicit ChildProcess(const ChildRequest& request);
  /// A child of this process that has been started otherwise and leads its process group; read ends of its pipes.
  ChildProcess(pid_t child, FileDescriptor out, FileDescriptor err) { own(child, std::move(out), std::move(err)); }
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return id_; }
  /// Read ends, non-blocking, owned by this; -1 if there is no pipe.
  int stdout_pipe() const { return stdout_.get(); }
  int stderr_pipe() const { return stderr_.get(); }

  /// The status of waitpid() if the child has ended, without waiting.
  std::optional<int> wait_status();
  /// Waits for the child to end; returns the status of waitpid().
  int wait();
  /// Signals the child alone; does nothing if it has ended.
  void send(int signal);
  /// As send(), for a request to stop that is repeated (stop_requests.hpp).
  void repeat_stop(int signal);
  /// Sends SIGKILL to the child's group; does nothing if the child has ended.
  void kill_group();

 private:
  void own(pid_t child, FileDescriptor out, FileDescriptor err);

  pid_t id_ = -1;
  std::optional<int> status_;
  FileDescriptor stdout_, stderr_;
};

/// Reads what a non-blocking pipe contains, at most 1 MiB per call, and keeps the last `limit` bytes of `text`. Returns
/// false at end of file.
bool read_available(int pipe, std::string& text, size_t limit);

struct ChildResult {
  std::string output;    ///< stdout; a child that writes more than 4 MiB is killed
  std::string messages;  ///< stderr, its last 16 KiB
  int exit_code = 0;
  int signal = 0;       ///< the signal that ended the child; 0: none
  int wait_status = 0;  ///< of waitpid(), for exit_text
  bool timed_out = false;
};

/// Reads what a child writes into its pipes until it ends, for at most `limit`; then kills its group.
ChildResult finish_child(ChildProcess& child, std::chrono::milliseconds limit);
/// Starts a child, whose stdout and stderr are pipes, and finishes it. Errors as of ChildProcess.
ChildResult run_child(const ChildRequest& request, std::chrono::milliseconds limit);
/// Runs a program in our environment.
ChildResult run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                      std::chrono::milliseconds limit);

/// The program's path, or that of the first program of this name in PATH; "" if there is none. Links are not resolved:
/// the Python of a virtual environment is a link to another one, and finds its packages by its own path.
std::filesystem::path find_program(const std::string& name);

/// The path of this program's executable, for starting it again. Error(storage) without /proc.
std::filesystem::path own_program(const std::filesystem::path& link = "/proc/self/exe");

/// "SIGKILL"; "signal 64" for one without a name.
std::string signal_name(int signal);

/// Whether the dynamic linker ended a process (127): a library of it cannot be loaded, or lacks a symbol.
bool was_not_loaded(int wait_status);

/// How this program ends because another one of ours failed with this status of waitpid(): storage for a limit of the
/// system, usage if it was not loaded, its own code for these two and out of memory, else bug.
ExitStatus failure_status(int wait_status);

/// How a process ended, from the status of waitpid(): "was killed by SIGKILL", "ended with exit code 3", followed by
/// `when` ("before it answered") and the limits of the system that may be the cause.
std::string exit_text(int wait_status, const std::string& when = "");

}  // namespace wmtp
