// What a run is, which its ranks must agree on before anything is built from it: the hash of its experiment and the
// files of its plugins.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiment/experiment.hpp"
#include "experiment/plugin_description.hpp"
#include "job/identity.hpp"
#include "train/session.hpp"

namespace wmtp {

struct RunIdentity {
  std::string config_hash;
  PluginDescription pipeline, adapter;
  std::optional<PluginDescription> inner;  ///< of [pipeline.inner]
  std::optional<PluginDescription> auxiliary_loss;

  /// Every plugin with its table in the experiment: "pipeline", "inner", "auxiliary_loss", "adapter".
  std::vector<std::pair<std::string, const PluginDescription*>> plugins() const;
};

/// [all ranks, collective] The error of Peers::check_inputs if ranks lack inputs or have different ones.
RunIdentity agree_on_identity(Session& session, const Experiment& experiment, const Stages& stages);

}  // namespace wmtp
