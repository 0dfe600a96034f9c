// Trials: what `plugins check` holds a plugin to, one after another, each in a child process of its own with a time
// limit: a plugin that crashes or hangs fails one trial and harms nothing. Knows no LibTorch; the child's side is
// try_plugin.hpp.
#pragma once

#include <string>
#include <vector>

#include "core/experiment/plugin_description.hpp"

namespace wmtp {

struct Trial {
  std::string name;
  std::string promise;  ///< what must hold, in a few words
};

/// In the order in which they are held. `role`: "weighting", "wrapper", "objective" or "adapter".
std::vector<Trial> trials_of(const std::string& role);

struct TrialResult {
  Trial trial;
  bool passed = false;
  std::string told;  ///< what was measured, or what is wrong
};

/// One of them, with the plugin's options. Never throws what the plugin did. A wrapper is tried over a weighting of
/// our own.
TrialResult hold(const Trial& trial, const PluginSetting& plugin);

}  // namespace wmtp
