// Memory and cores that this process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace wmtp {

/// Bytes: the minimum of the system's MemAvailable and the remainder of each limit of this process's control groups (v1
/// or v2), whose file cache counts as free. Nothing when unknown. `root`: the file system's root, for tests.
std::optional<int64_t> available_memory(const std::filesystem::path& root = "/");

/// The cores that this process may run on.
int usable_cores();

}  // namespace wmtp
