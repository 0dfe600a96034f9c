// A frozen model beside the policy, the reference or the value model: what it says of each token. Sharded by its own
// strategy, in its own precision; holds the next-token head or value heads only, and nothing to train it.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "engine/model/linear_cross_entropy.hpp"
#include "engine/shard/sharded_model.hpp"

namespace wmtp {

class FrozenModel {
 public:
  /// `model` has Heads::first, or Heads::none and one value head.
  FrozenModel(std::unique_ptr<ShardedModel> model, int64_t chunk_tokens);
  /// [B,S] fp32 by name: "loss" and "entropy" of the next token at each source position (0 at the last), "value" after
  /// each position. Padding is predicted like any token: the caller masks. [all ranks, collective]
  std::map<std::string, at::Tensor> signals(const Batch& batch, const std::set<std::string>& wanted);

 private:
  at::Tensor trunk(const Pass& pass, const at::Tensor& tokens);
  at::Tensor values(const at::Tensor& normed);
  std::map<std::string, at::Tensor> predictions(const at::Tensor& normed, const at::Tensor& tokens, bool entropies);

  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<LinearCrossEntropy> loss_;  ///< null without a next-token head
};

}  // namespace wmtp
