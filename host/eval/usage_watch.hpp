// What a process under test has used of things that no limit of the kernel's bounds as a whole: bytes written to all
// files and pipes together, files and folders made, threads. Read from outside, by /proc and by its folder.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace wmtp {

struct UsageLimits {
  int64_t written_bytes = int64_t{64} << 20;
  int64_t files = 1000;
  int64_t threads = 64;
};

/// Error(usage) when this system does not tell what a process has written.
void check_usage_is_told();

/// What was exceeded, "" when nothing was. `pid` has not been waited for. A process that hides what it has used has
/// exceeded it.
std::string exceeded(pid_t pid, const std::filesystem::path& folder, const UsageLimits& limits);

}  // namespace wmtp
