// LibTorch for the engine: found before the engine starts, since the dynamic linker's message says neither where it
// searched nor what to set.
#pragma once

#include <map>
#include <string>

namespace wmtp {

/// Our environment, extended where necessary so that the dynamic linker finds the engine's LibTorch. Searched in this
/// order: the folder WMTP_LIBTORCH, LD_LIBRARY_PATH, the engine's run path, and the torch of the Python WMTP_PYTHON, or
/// else of python3 in PATH; never the current folder. Error(usage), in one line, with all places, if LibTorch is in
/// none of them or has another version than that of this build.
std::map<std::string, std::string> engine_environment();

}  // namespace wmtp
