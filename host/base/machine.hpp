// Memory and cores that this process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace wmtp {

/// Bytes: the minimum of MemAvailable and of what each cgroup limit of this process (v1 or v2) leaves, counting the
/// cgroup's file cache as free. nullopt if unknown. `root`: root of the file system, for tests.
std::optional<int64_t> available_memory(const std::filesystem::path& root = "/");

/// The cores that this process may run on.
int usable_cores();

}  // namespace wmtp
