// Checks of files. Every path that the program reads must name a regular file, or a folder where folders are allowed: a
// pipe or a device could block the program or never end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/error.hpp"

namespace wmtp {

/// False also when the path cannot be examined.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// Error(`status`) with the type of `path`, unless it is a regular file or a link to one. Opens nothing; accepts a path
/// that cannot be examined, because opening it will report the cause.
void check_is_file(const std::filesystem::path& path, ExitStatus status = ExitStatus::data);

/// The same, but accepts a folder.
void check_is_file_or_folder(const std::filesystem::path& path, ExitStatus status = ExitStatus::data);

/// The sum of all sizes. std::filesystem::filesystem_error when a file is missing.
inline int64_t total_bytes(const std::vector<std::filesystem::path>& files) {
  int64_t bytes = 0;
  for (const auto& file : files) bytes += static_cast<int64_t>(std::filesystem::file_size(file));
  return bytes;
}

}  // namespace wmtp
