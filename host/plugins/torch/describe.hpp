// Descriptions and answers of loaded plugins, as JSON. [engine, in the probe's child process]
#pragma once

#include <string>

namespace wmtp {

/// JSON of a file's PluginDescription (without path and sha256); for "built-in", an array for the plugins linked into
/// the engine. Error(plugin).
std::string describe_plugin_file(const std::string& file);

/// JSON of the PluginCheckResult of a plugin created with its options. `request`: {"plugin": PluginSetting, "inner":
/// PluginSetting of the wrapped plugin}. Error(plugin).
std::string check_plugin_options(const std::string& request);

}  // namespace wmtp
