// Paths without `.` and `..`, as the system resolves them: after a link to a folder, `..` is the parent of the folder
// that the link names. (std::filesystem's lexically_normal drops both, which names another file.)
#pragma once

#include <filesystem>

namespace wmtp {

/// `path` with each `folder/..` replaced by the folder's parent. Other links keep their names; what does not exist is
/// treated as a folder. Ends with no separator.
std::filesystem::path normal_path(const std::filesystem::path& path);

/// normal_path of the absolute path.
inline std::filesystem::path absolute_path(const std::filesystem::path& path) {
  return normal_path(std::filesystem::absolute(path));
}

}  // namespace wmtp
