#include "train/run_identity.hpp"

#include <map>

#include "base/error.hpp"
#include "experiment/canonical.hpp"

namespace wmtp {

std::vector<std::pair<std::string, const PluginDescription*>> RunIdentity::plugins() const {
  std::vector<std::pair<std::string, const PluginDescription*>> all{{"pipeline", &pipeline}};
  if (inner) all.emplace_back("inner", &*inner);
  if (auxiliary_loss) all.emplace_back("auxiliary_loss", &*auxiliary_loss);
  all.emplace_back("adapter", &adapter);
  return all;
}

RunIdentity agree_on_identity(Session& session, const Experiment& experiment, const Stages& stages) {
  RunIdentity identity;
  std::map<std::string, std::pair<const PluginChoice*, PluginDescription*>> plugins{
      {"pipeline", {&experiment.pipeline, &identity.pipeline}}, {"adapter", {&experiment.adapter, &identity.adapter}}};
  if (experiment.inner) plugins["pipeline.inner"] = {&*experiment.inner, &identity.inner.emplace()};
  if (experiment.auxiliary_loss)
    plugins["auxiliary_loss"] = {&*experiment.auxiliary_loss, &identity.auxiliary_loss.emplace()};
  IdentityParts parts;
  std::vector<Peers::Input> inputs{{"experiment", config_hash(experiment, {}), {}}};
  for (const auto& [name, hash] : input_hashes(experiment, stages, session.catalog(), session.job().database)) {
    Peers::Input& input = inputs.emplace_back(Peers::Input{name, "", {}});
    try {
      parts[name] = input.content = hash();
      const auto plugin = plugins.find(name);
      if (plugin == plugins.end()) continue;
      const auto& [choice, description] = plugin->second;
      const PluginKind kind = from_name<PluginKind>(name).value_or(PluginKind::pipeline);
      *description = session.catalog().describe(kind, choice->plugin);
      input.content = description->sha256;
    } catch (const Error& error) {
      input.lack = error;
    }
  }
  session.peers().check_inputs(inputs);
  identity.config_hash = config_hash(experiment, parts);
  return identity;
}

}  // namespace wmtp
