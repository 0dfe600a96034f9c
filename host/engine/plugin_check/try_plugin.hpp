// The child's side of a trial: a plugin in a small training of random records. [engine]
#pragma once

#include <string>

namespace wmtp {

/// `question`: {"trial": its name, "plugin": PluginSetting}. Gives {"told": TEXT}. Throws Error(plugin) with what is
/// wrong when the plugin does not hold.
std::string try_plugin(const std::string& question);

}  // namespace wmtp
