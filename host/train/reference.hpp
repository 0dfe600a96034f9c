// The frozen reference model: what it thinks of the next token. Sharded by its own strategy, in its own precision;
// holds the first head only and nothing to train it.
#pragma once

#include <memory>

#include "data/batches.hpp"
#include "model/linear_cross_entropy.hpp"
#include "shard/sharded_model.hpp"

namespace wmtp {

class Reference {
 public:
  /// `model` has Heads::first.
  Reference(std::unique_ptr<ShardedModel> model, int64_t chunk_tokens);
  /// [B,S] fp32: loss of the token after each source position, 0 where there is none. [all ranks, collective]
  at::Tensor losses(const Batch& batch);

 private:
  std::unique_ptr<ShardedModel> model_;
  LinearCrossEntropy loss_;
};

}  // namespace wmtp
