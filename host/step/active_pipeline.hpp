// The pipeline of a run: its plugin and the plugin's needs. A plugin that needs an unavailable signal is refused here.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>
#include <wmtp/auxiliary_loss.hpp>
#include <wmtp/pipeline.hpp>

#include "experiment/experiment.hpp"
#include "experiment/plugin_description.hpp"

namespace wmtp {

/// The plugin of [auxiliary_loss] and its needs.
struct ActiveAuxiliaryLoss {
  std::string name;
  std::unique_ptr<AuxiliaryLoss> loss;
  LogitsNeeds needs;
  std::set<int64_t> heads;  ///< those that have it, from 1
};

struct ActivePipeline {
  std::string name;
  std::unique_ptr<Weighting> weighting;  ///< this or the objective; the other is null
  std::unique_ptr<Objective> objective;
  Needs needs;
  /// What is read from the frozen models, by table: "loss", "entropy", "value"; "hidden" states, from which logits are
  /// computed. [reference] is the first.
  std::map<std::string, std::set<std::string>> frozen;
  std::optional<ActiveAuxiliaryLoss> auxiliary_loss;

  bool reads(Signal signal) const;
  /// The signals of the data that it reads.
  std::vector<Signal> data_signals() const;
};

/// Queries the plugin's needs. Error(plugin) names the plugin, the signal that it needs and the available ones.
ActivePipeline make_pipeline(const std::string& name, std::unique_ptr<Weighting> weighting,
                             std::unique_ptr<Objective> objective, const Experiment& experiment);
/// The same, after loading the plugin.
ActivePipeline open_pipeline(const PluginSetting& plugin, const PluginSetting* inner, const Experiment& experiment);

/// Adds the auxiliary loss to a weighting. Error(plugin) if no head of the model has it.
void add_auxiliary_loss(const PluginSetting& plugin, const Experiment& experiment, ActivePipeline& pipeline);
void add_auxiliary_loss(const std::string& name, std::unique_ptr<AuxiliaryLoss> loss, const Experiment& experiment,
                        ActivePipeline& pipeline);

}  // namespace wmtp
