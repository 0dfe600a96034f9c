// Memory and cores that this process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace wmtp {

/// The first number of each line "name value ...", with or without a colon after the name; none of a missing file.
std::map<std::string, int64_t> named_numbers_in(const std::filesystem::path& file);

/// Bytes: the minimum of the system's MemAvailable and the remainder of each limit of this process's control groups (v1
/// or v2), whose file cache counts as free. Nothing when unknown. `root`: the file system's root, for tests.
std::optional<int64_t> available_memory(const std::filesystem::path& root = "/");

/// The least number of processes and threads to which a control group of this process is limited (pids.max).
std::optional<int64_t> cgroup_pids_limit(const std::filesystem::path& root = "/");

/// The cores that this process may run on, at most the CPU quota of its control groups (v1 or v2), rounded down, at
/// least 1. `root`: as above.
int usable_cores(const std::filesystem::path& root = "/");

}  // namespace wmtp
