// What several rooms ask of files, and the one rule for every path that the program reads: it names a regular file, or
// a folder where folders are meant. A pipe or a device would hold the program up, or never end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/error.hpp"

namespace wmtp {

/// One that cannot be looked at counts as absent.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// Error(`status`) that says what `path` is instead, unless it is a regular file (or a link to one). Opens nothing;
/// what cannot be looked at is left to whoever opens it.
void check_is_file(const std::filesystem::path& path, ExitStatus status = ExitStatus::data);

/// The same where a folder will do.
void check_is_file_or_folder(const std::filesystem::path& path, ExitStatus status = ExitStatus::data);

/// Of all of them together. std::filesystem::filesystem_error where one is not there.
inline int64_t total_bytes(const std::vector<std::filesystem::path>& files) {
  int64_t bytes = 0;
  for (const auto& file : files) bytes += static_cast<int64_t>(std::filesystem::file_size(file));
  return bytes;
}

}  // namespace wmtp
