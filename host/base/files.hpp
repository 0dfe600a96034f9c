// What several rooms ask of files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace wmtp {

/// One that cannot be looked at counts as absent.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// Of all of them together. std::filesystem::filesystem_error where one is not there.
inline int64_t total_bytes(const std::vector<std::filesystem::path>& files) {
  int64_t bytes = 0;
  for (const auto& file : files) bytes += static_cast<int64_t>(std::filesystem::file_size(file));
  return bytes;
}

}  // namespace wmtp
