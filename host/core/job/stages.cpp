#include "core/job/stages.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {

std::vector<NamedStage> named_stages(const Experiment& experiment) {
  std::vector<NamedStage> named;
  for (const auto& [table, stage] : experiment.stages) {
    const auto known =
        std::find_if(named.begin(), named.end(), [&](const NamedStage& one) { return one.experiment == stage.get(); });
    if (known == named.end())
      named.push_back({{table}, stage.get()});
    else
      known->tables.push_back(table);
  }
  return named;
}

std::string tables_text(const NamedStage& stage) { return join_names(stage.tables); }

const std::string& ExperimentHashes::of(const Experiment& experiment) {
  const auto known = known_.find(&experiment);
  if (known != known_.end()) return known->second;
  Stages stages;
  for (const auto& [table, stage] : experiment.stages) stages[table].config_hash = of(*stage);
  return known_[&experiment] = experiment_hash(experiment, stages, catalog_, database_);
}

std::string to_text(const Stages& stages) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [table, stage] : stages)
    json[table] = {{"config_hash", stage.config_hash}, {"model", stage.model.string()}};
  return json.dump();
}

Stages stages_from_text(const std::string& text) {
  try {
    Stages stages;
    const auto json = nlohmann::json::parse(text);
    for (const auto& [table, stage] : json.items())
      stages[table] = {stage.at("config_hash").get<std::string>(), stage.at("model").get<std::string>()};
    return stages;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitStatus::bug, std::string("these are no stages that rank 0 has sent: ") + error.what());
  }
}

}  // namespace wmtp
