// What a process under test has used of things that no limit of the kernel's bounds as a whole: bytes written to all
// files and pipes together, files and folders made, threads. Read from outside, by /proc and by its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "evaluate/confined_process.hpp"

namespace wmtp {

struct UsageLimits {
  int64_t written_bytes = int64_t{64} << 20;
  int64_t files = 1000;
  int64_t threads = 64;
};

/// Error(usage) when this system does not tell what a process has written.
void check_usage_is_told();

class UsageWatch {
 public:
  UsageWatch(const ConfinedProcess& process, std::filesystem::path folder, const UsageLimits& limits);

  /// What was exceeded, "" when nothing was or the process has ended. A process that hides what it uses has exceeded
  /// it.
  std::string exceeded() const;

 private:
  std::string found() const;

  const ConfinedProcess& process_;
  const std::filesystem::path folder_;
  const UsageLimits limits_;
  /// Opened while the process begins: once its main thread has ended, only root could open it.
  const Descriptor written_;
};

}  // namespace wmtp
