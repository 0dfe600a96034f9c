// The pipeline of a run: its plugin and the plugin's needs. A plugin that needs an unavailable signal is refused here.
#pragma once

#include <memory>
#include <set>
#include <vector>
#include <wmtp/pipeline.hpp>

#include "experiment/experiment.hpp"
#include "experiment/plugin_description.hpp"

namespace wmtp {

struct ActivePipeline {
  std::string name;
  std::unique_ptr<Weighting> weighting;  ///< this or the objective; the other is null
  std::unique_ptr<Objective> objective;
  Needs needs;
  std::set<std::string> reference, value;  ///< signals that it reads from the frozen models: "loss", "entropy", "value"

  bool reads(Signal signal) const;
  /// The signals of the data that it reads.
  std::vector<Signal> data_signals() const;
};

/// Queries the plugin's needs. Error(plugin) names the plugin, the signal that it needs and the available ones.
ActivePipeline make_pipeline(const std::string& name, std::unique_ptr<Weighting> weighting,
                             std::unique_ptr<Objective> objective, const Experiment& experiment);
/// The same, after loading the plugin.
ActivePipeline open_pipeline(const PluginSetting& plugin, const PluginSetting* inner, const Experiment& experiment);

}  // namespace wmtp
