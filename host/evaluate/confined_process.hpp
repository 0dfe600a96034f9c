// A Python process without privileges (confinement.hpp, system_calls.hpp), its output, its exit status and its usage of
// resources that no single kernel limit bounds. It cannot start processes, so killing it ends everything.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "process/child_process.hpp"

namespace wmtp {

struct ProcessStart {
  std::vector<std::string> arguments = {};  ///< the program's path first
  std::filesystem::path folder = {};  ///< working directory and only writable folder; empty: "/", nothing writable
  int input = -1;                     ///< the file descriptor for stdin; stdout and stderr are its output
  std::vector<int> descriptors = {};  ///< its descriptors from 3 on, at most four
  int64_t memory_bytes = 0, file_bytes = 0, cpu_seconds = 0;
};

class ConfinedProcess {
 public:
  /// Error(storage) if no process can be started, Error(usage) if this kernel cannot confine it.
  explicit ConfinedProcess(const ProcessStart& start);

  int output() const { return output_.read_end.get(); }  ///< readable when it has written
  int exit() const { return exit_.get(); }               ///< readable when it has ended
  pid_t id() const { return process_.id(); }
  bool has_ended() const;
  void take_output();  ///< reads available output; keeps the last 64 KiB
  /// Kills the process if it is running and reads its remaining output. Returns the status of waitpid, on every call.
  int end();
  /// [ended] The last line of its output, or the reason that it ended.
  std::string final_message();

 private:
  Pipe output_;
  ChildProcess process_;
  FileDescriptor exit_;
  std::string text_;
};

/// Total bytes written to files and pipes, files and folders created, folders within each other, threads.
struct UsageLimits {
  int64_t written_bytes = int64_t{64} << 20;
  int64_t files = 1000;
  int64_t depth = 64;
  int64_t threads = 64;
};

/// Error(usage) if this system does not report how many bytes a process has written.
void check_usage_is_visible();

/// Watches usage from outside, through /proc and the process's folder, with a few descriptors and within limits of time
/// and memory that the program cannot raise.
class UsageWatch {
 public:
  UsageWatch(const ConfinedProcess& process, std::filesystem::path folder, const UsageLimits& limits);

  /// The exceeded limit; "" if none, or if the process has ended. Hiding the usage counts as exceeding the limit.
  std::string exceeded() const;

 private:
  std::string find_exceeded() const;

  const ConfinedProcess& process_;
  const std::filesystem::path folder_;
  const UsageLimits limits_;
  /// Opened when the process starts: after its main thread has ended, only root could open it.
  const FileDescriptor written_;
};

}  // namespace wmtp
