// Drops the privileges of a process before it executes an untrusted program. Runs between fork and exec of a
// multi-threaded process, so confine() makes system calls only: no allocation, no locks.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace wmtp {

/// Landlock rules: allow reading and executing everything, and writing, creating and removing only below `folder` if
/// not empty; forbid tracing or reading the memory of processes without these rules. Returns a descriptor for
/// confine(). Error(usage) if the kernel has no Landlock.
int landlock_rules(const std::filesystem::path& folder);

/// [in the child] False if a step failed, with the cause in errno.
bool confine(int rules, const std::vector<sock_filter>& filter, int64_t memory_bytes, int64_t file_bytes,
             int64_t cpu_seconds);

}  // namespace wmtp
