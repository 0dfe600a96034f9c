// What a live plugin says of itself. [engine, in the probe child]
#pragma once

#include <string>

namespace wmtp {

/// JSON of the PluginDescription (without path and sha256) of a file; for "built-in" an array of those linked into the
/// engine. Throws Error(plugin).
std::string describe_plugin_file(const std::string& file);

/// JSON of the PluginAnswer of a plugin that is made with its options: `request` is {"plugin": its PluginSetting,
/// "inner": that of the wrapped one}. Throws Error(plugin).
std::string check_plugin_options(const std::string& request);

}  // namespace wmtp
