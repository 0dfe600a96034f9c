// The rights that a process gives up before it executes an untrusted program. Runs between fork and exec of a process
// with threads, so confine() makes system calls only: no allocation, no locks.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace wmtp {

/// Landlock: allows to read and execute everything, and to write, create and remove only below `folder`, if not empty;
/// forbids to trace or read the memory of a process without these rules. Returns the descriptor of the rules for
/// confine(). Error(usage) when the kernel has no Landlock.
int rules_for_writing_below(const std::filesystem::path& folder);

/// [in the child] False when a step failed; with the cause in errno.
bool confine(int rules, const std::vector<sock_filter>& filter, int64_t memory_bytes, int64_t file_bytes,
             int64_t cpu_seconds);

}  // namespace wmtp
