// Usage of a process under test that no single kernel limit bounds: total bytes written to files and pipes, files and
// folders created, threads. Read from outside, from /proc and the process's folder.
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

/// Error(usage) when this system does not report how much a process has written.
void check_usage_is_visible();

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
