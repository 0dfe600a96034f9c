// A trial (plugins/trials.hpp) in the child process: runs a plugin in a small training on random records.
#pragma once

#include <string>

namespace wmtp {

/// `request`: {"trial": its name, "plugin": PluginSetting, "device": "cpu" or "cuda"}. Returns {"report": TEXT} with
/// the measurement. Error(plugin) with the reason if the plugin fails the trial.
std::string try_plugin(const std::string& request);

}  // namespace wmtp
