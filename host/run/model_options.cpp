#include "run/model_options.hpp"

#include "base/error.hpp"
#include "run/identity.hpp"

namespace wmtp {

GroupOptions group_options(Strategy strategy, Precision precision, at::Device device) {
  return {strategy, precision == Precision::bf16 ? at::kBFloat16 : at::kFloat, device};
}

std::filesystem::path first_weights(Session& session, const Experiment& experiment, const std::string& table,
                                    const std::string& stage, const std::string& weights) {
  const std::filesystem::path& database = session.job().database;
  if (!weights.empty()) return resolve_weights(weights, experiment, database);
  if (stage.empty()) return {};
  const Experiment& trained = *experiment.stage(table);
  const auto model = finished_model(experiment_hash(trained, session.catalog(), database), database);
  if (model.empty())
    throw Error(ExitStatus::data, "[" + table + "] experiment: stage '" + trained.name + "' has no finished run");
  return model;
}

}  // namespace wmtp
