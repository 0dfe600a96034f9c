// A Python process that has given up its rights (confinement.hpp, system_calls.hpp), its output, its exit status and its usage
// of what no single kernel limit bounds. It can start no other process, so killing it ends everything it started.
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
  int input = -1;                     ///< its descriptor 0; 1 and 2 are its output
  std::vector<int> descriptors = {};  ///< its descriptors from 3 on, at most four
  int64_t memory_bytes = 0, file_bytes = 0, cpu_seconds = 0;
};

class ConfinedProcess {
 public:
  /// Error(storage) when no process can be started, Error(usage) when this kernel cannot confine it.
  explicit ConfinedProcess(const ProcessStart& start);

  int output() const { return output_.read_end.get(); }  ///< readable when it has written
  int exit() const { return exit_.get(); }               ///< readable when it has ended
  pid_t id() const { return process_.id(); }
  bool has_ended() const;
  void take_output();  ///< reads available output; the last 64 KiB are kept
  /// Kills it if it is running and reads the rest of its output. The status of waitpid, on every call.
  int end();
  /// [ended] Its last line, or what ended it.
  std::string last_words();

 private:
  Pipe output_;
  ChildProcess process_;
  Descriptor exit_;
  std::string text_;
};

/// Total bytes written to files and pipes, files and folders created, threads.
struct UsageLimits {
  int64_t written_bytes = int64_t{64} << 20;
  int64_t files = 1000;
  int64_t threads = 64;
};

/// Error(usage) when this system does not report how much a process has written.
void check_usage_is_visible();

/// Reads usage from outside, from /proc and the process's folder.
class UsageWatch {
 public:
  UsageWatch(const ConfinedProcess& process, std::filesystem::path folder, const UsageLimits& limits);

  /// The limit that was exceeded; "" if none, or if the process has ended. Hiding the usage counts as exceeding it.
  std::string exceeded() const;

 private:
  std::string find_exceeded() const;

  const ConfinedProcess& process_;
  const std::filesystem::path folder_;
  const UsageLimits limits_;
  /// Opened when the process starts: after its main thread has ended, only root could open it.
  const Descriptor written_;
};

}  // namespace wmtp
