// Paths of the installation, relative to the loaded core library, so that the prefix can be moved.
#pragma once

#include <filesystem>

namespace wmtp {

/// The folder of libwmtp_core.so: PREFIX/lib, or lib/ of the build.
std::filesystem::path library_folder();
/// lib/wmtp/plugins.
std::filesystem::path own_plugin_folder();
/// The shipped experiments: PREFIX/share/wmtp/experiments, or experiments/ of the tree that contains the build.
/// Error(bug) if they are missing.
std::filesystem::path experiments_folder();
/// bin/wmtp-host.
std::filesystem::path host_program();
/// bin/wmtp-engine. Error(bug) if it is missing.
std::filesystem::path engine_program();

}  // namespace wmtp
