#include "engine/run/model_options.hpp"

#include "core/job/identity.hpp"

namespace wmtp {
namespace {

at::ScalarType type_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return at::kFloat;
    case Precision::bf16:
      return at::kBFloat16;
    case Precision::fp16:
      return at::kHalf;
  }
  return at::kFloat;
}

}  // namespace

GroupOptions group_options(const ParallelConfig& parallel, at::Device device) {
  return {parallel.strategy,
          type_of(parallel.precision),
          device,
          int(parallel.shard_group_size),
          type_of(parallel.reduce),
          parallel.replicate_frozen,
          parallel.cpu_offload};
}

std::filesystem::path initial_weights(const Session& session, const Experiment& experiment, const Stages& stages,
                                      const std::string& table, const std::string& weights) {
  if (const auto stage = stages.find(table); stage != stages.end()) return stage->second.model;
  return weights.empty() ? std::filesystem::path() : resolve_weights(weights, experiment, session.job().database);
}

}  // namespace wmtp
