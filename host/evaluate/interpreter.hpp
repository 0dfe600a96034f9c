// The Python that runs tests, found once, as what itself says is its path.
#pragma once

#include <filesystem>
#include <string>

namespace wmtp {

/// `python`: a path, or a name that is looked for in PATH. Error(usage) when it is not there, or is no Python.
std::filesystem::path find_interpreter(const std::string& python);

}  // namespace wmtp
