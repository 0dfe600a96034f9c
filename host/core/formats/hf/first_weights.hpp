// First weights against the model that they go into: where each parameter is read from, and what is refused. A run that
// loads them and a plan that does not ask the same. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "core/formats/hf/weights_source.hpp"

namespace wmtp {

class FirstWeights {
 public:
  /// `token_heads` of the model: all, one for a reference, none for a value model. Errors as WeightsSource.
  FirstWeights(std::filesystem::path weights, const ModelConfig& model, int64_t token_heads);

  /// Where a parameter is read from; nothing where the files lack it and it is drawn: with `own_start`, or as a new
  /// head. Error(data) when it is missing otherwise, or has another shape.
  std::optional<WeightsSource::Tensor> find(const std::string& name, const std::vector<int64_t>& shape,
                                            bool own_start) const;
  /// Error(data) for a tensor that is none of `known`, unless it is of a head that the model does without.
  void check_names(const std::set<std::string>& known) const;

 private:
  std::filesystem::path weights_;
  const ModelConfig& model_;
  int64_t token_heads_;
  WeightsSource source_;
};

/// What loading them would refuse, from names and shapes alone: Error(data).
void check_first_weights(const std::filesystem::path& weights, const ModelConfig& model, int64_t token_heads);

/// The shape that params.json beside the weights gives (Meta's keys); what it does not say is as in `like`.
ModelConfig model_config_of(const std::filesystem::path& folder, const ModelConfig& like);

}  // namespace wmtp
