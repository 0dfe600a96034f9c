// Trials: the tests of `plugins check`. Each runs in its own process with a time limit, so that a plugin that crashes
// or hangs fails only that trial. The host starts one engine, which loads LibTorch once and forks for each trial. It
// computes nothing itself, so at each fork it has one thread and no CUDA library. The fork runs
// plugins/torch/check/try_plugin.hpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiment/plugin_description.hpp"

namespace wmtp {

struct Trial {
  std::string name;
  std::string promise;  ///< the tested property
};

/// In execution order. `device`: "cpu" or "cuda".
std::vector<Trial> trials_for_role(PluginRole role, const std::string& device);

struct TrialResult {
  Trial trial;
  bool passed = false;
  std::string message;  ///< the measurement or the failure
};

/// Runs all trials with the plugin's options on the CPU or the first CUDA device; a failing plugin does not throw. A
/// wrapper wraps one of the engine's weightings.
std::vector<TrialResult> run_trials(const PluginSetting& plugin, const std::string& device);

/// [in the engine] The answer to the request of run_trials. `serve_trial` answers the request of one trial, in a fork.
std::string serve_trials(const std::string& request, const std::function<int(const std::string&)>& serve_trial);

}  // namespace wmtp
