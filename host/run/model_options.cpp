#include "run/model_options.hpp"

#include "run/identity.hpp"

namespace wmtp {

GroupOptions group_options(const ParallelConfig& parallel, at::Device device) {
  return {parallel.strategy, parallel.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat, device,
          int(parallel.shard_group_size), parallel.reduce == Precision::bf16 ? at::kBFloat16 : at::kFloat};
}

std::filesystem::path first_weights(const Session& session, const Experiment& experiment, const Stages& stages,
                                    const std::string& table, const std::string& weights) {
  if (const auto stage = stages.find(table); stage != stages.end()) return stage->second.model;
  return weights.empty() ? std::filesystem::path() : resolve_weights(weights, experiment, session.job().database);
}

}  // namespace wmtp
