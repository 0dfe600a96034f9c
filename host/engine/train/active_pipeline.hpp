// The pipeline of a run: its plugin, and what it declared; refused here when it asks for what this version has not.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <wmtp/pipeline.hpp>

#include "core/experiment/experiment.hpp"
#include "core/experiment/plugin_description.hpp"

namespace wmtp {

struct ActivePipeline {
  std::string name;
  std::unique_ptr<Weighting> weighting;  ///< one of the two
  std::unique_ptr<Objective> objective;
  Needs needs;
  bool reads_entropy = false;              ///< of the policy
  std::set<std::string> reference, value;  ///< what it reads of the frozen models: "loss", "entropy", "value"
};

/// Asks one of the two, the other is null, for its needs. Error(plugin) names the plugin, what it needs and what there is.
ActivePipeline in_use(const std::string& name, std::unique_ptr<Weighting> weighting,
                      std::unique_ptr<Objective> objective, const Experiment& experiment);
/// The same of a plugin that is loaded first.
ActivePipeline open_pipeline(const PluginSetting& plugin, const PluginSetting* inner, const Experiment& experiment);

}  // namespace wmtp
