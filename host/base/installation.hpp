// Paths of the installation, relative to the loaded core library, so that the prefix can be moved.
#pragma once

#include <filesystem>

namespace wmtp {

/// The folder of libwmtp_core.so: PREFIX/lib, or lib/ of the build.
std::filesystem::path library_folder();
/// lib/wmtp/plugins.
std::filesystem::path own_plugin_folder();
/// bin/wmtp-engine. Error(bug) if it is missing.
std::filesystem::path engine_program();

}  // namespace wmtp
