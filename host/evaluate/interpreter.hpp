// The Python interpreter that runs tests.
#pragma once

#include <filesystem>
#include <string>

namespace wmtp {

/// `python`: a path, or a name in PATH. Error(usage) when it does not exist or is not Python.
std::filesystem::path find_interpreter(const std::string& python);

}  // namespace wmtp
