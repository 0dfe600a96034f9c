// A plugin's description, taken from the live plugin. [engine, in the probe child]
#pragma once

#include <string>

namespace wmtp {

/// JSON of the PluginDescription (without path and sha256) of a file; for "built-in" an array of those linked into the
/// engine. Throws Error(plugin).
std::string describe_plugin_file(const std::string& file);

}  // namespace wmtp
