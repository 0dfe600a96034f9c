// What this machine leaves to a process: memory and cores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace wmtp {

/// Bytes: the system's MemAvailable, or what the limits of this process's control groups (v1 or v2) leave where that is
/// less; a group's file cache counts as free. Nothing where the system does not say it. `root` is the file system's.
std::optional<int64_t> available_memory(const std::filesystem::path& root = "/");

/// The cores that this process may run on.
int usable_cores();

}  // namespace wmtp
