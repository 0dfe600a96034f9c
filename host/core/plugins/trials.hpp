// Trials: the tests of `plugins check`. Each runs in its own child process with a time limit, so that a plugin that
// crashes or hangs fails only that trial. The child runs engine/plugin_check/try_plugin.hpp.
#pragma once

#include <string>
#include <vector>

#include "core/experiment/plugin_description.hpp"

namespace wmtp {

struct Trial {
  std::string name;
  std::string promise;  ///< the tested property
};

/// In execution order. `role`: "weighting", "wrapper", "objective" or "adapter"; `device`: "cpu" or "cuda".
std::vector<Trial> trials_of(const std::string& role, const std::string& device);

struct TrialResult {
  Trial trial;
  bool passed = false;
  std::string message;  ///< the measurement or the failure
};

/// Runs one trial with the plugin's options on the CPU or the first CUDA device; a failing plugin does not throw. A
/// wrapper wraps one of the engine's weightings.
TrialResult run_trial(const Trial& trial, const PluginSetting& plugin, const std::string& device);

}  // namespace wmtp
