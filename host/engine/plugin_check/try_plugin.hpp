// The child's side of a trial (core/plugins/trials.hpp): a plugin in a small training run on random records.
#pragma once

#include <string>

namespace wmtp {

/// `question`: {"trial": its name, "plugin": PluginSetting, "device": "cpu" or "cuda"}. Returns {"told": TEXT}, the measured result. Throws
/// Error(plugin) with the reason when the plugin fails the trial.
std::string try_plugin(const std::string& question);

}  // namespace wmtp
