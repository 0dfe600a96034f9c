// A child process whose output is read whole, with a time limit. When it is over, the child and everything it started
// in its process group are killed; nothing outlives the call.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

struct ChildResult {
  std::string output;    ///< stdout, at most 4 MiB
  std::string messages;  ///< stderr, its last 16 KiB
  int exit_code = 0;
  int signal = 0;  ///< that ended it; 0: none
  bool timed_out = false;
};

/// Error(plugin) when the program cannot be started. Safe beside other threads (nothing of ours runs between fork and
/// exec).
ChildResult run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                      std::chrono::milliseconds limit);

}  // namespace wmtp
