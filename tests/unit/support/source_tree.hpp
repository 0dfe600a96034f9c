// Where the tests find the files of the source tree.
#pragma once

#include <filesystem>

/// The root of the source tree. (The working directory is the build folder, as a path that ccache shortens needs it.)
inline std::filesystem::path source_tree() {
  return std::filesystem::absolute(__FILE__).parent_path().parent_path().parent_path().parent_path();
}
