// Where this program's own parts lie, found from the loaded core library, so that a moved prefix still works.
#pragma once

#include <filesystem>

namespace wmtp {

/// The folder of libwmtp_core.so: PREFIX/lib, or lib/ of the build.
std::filesystem::path library_folder();
/// lib/wmtp/plugins.
std::filesystem::path own_plugin_folder();
/// bin/wmtp-engine beside lib/. Error(bug) when it is missing.
std::filesystem::path engine_program();

}  // namespace wmtp
