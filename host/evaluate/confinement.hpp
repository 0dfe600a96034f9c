// What a process gives up before it executes a program that nobody vouches for. Between fork and exec of a process with
// threads, so that confine() makes system calls only: no memory, no locks.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace wmtp {

/// Landlock: everything can be read and executed, nothing be written, made or removed but below `folder`, if there is
/// one; and no process be traced, nor its memory be read, but one with these rules. The descriptor of a set of rules
/// that confine() takes. Error(usage) when the kernel has no Landlock.
int rules_for_writing_below(const std::filesystem::path& folder);

/// [in the child] False when a step failed; errno says why.
bool confine(int rules, const std::vector<sock_filter>& filter, int64_t memory_bytes, int64_t file_bytes,
             int64_t cpu_seconds);

}  // namespace wmtp
