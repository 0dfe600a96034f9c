#include "base/normal_path.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// `folder` without its last name; "folder/.." if it has none to remove.
fs::path parent_of(const fs::path& folder) {
  if (folder.empty() || folder.filename() == "..") return folder / "..";
  if (!folder.has_relative_path()) return folder;  // the parent of / is /
  std::error_code failure;
  if (!fs::is_symlink(folder, failure)) return folder.parent_path();
  const fs::path target = fs::canonical(folder, failure);
  return failure ? folder.parent_path() : target.parent_path();
}

}  // namespace

fs::path normal_path(const fs::path& path) {
  fs::path normal = path.root_path();
  for (const fs::path& part : path.relative_path()) {
    if (part == "..")
      normal = parent_of(normal);
    else if (!part.empty() && part != ".")
      normal /= part;
  }
  return normal.empty() && !path.empty() ? fs::path(".") : normal;
}

}  // namespace wmtp
