// One Llama block: pre-norm attention with grouped queries and rotary positions, pre-norm SwiGLU feed-forward.
// Pure compute: it knows handles and slots, nothing of storage or ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>
#include <wmtp/adapter.hpp>

#include "core/experiment/experiment.hpp"
#include "engine/model/weight_store.hpp"

namespace wmtp {

using FindWeight = std::function<WeightHandle(const std::string& parameter)>;

/// What a forward pass needs beside its input. Random draws are keyed by it, so that a second run draws the same.
struct Pass {
  bool training = false;
  int64_t seed = 0;
  int64_t step = 0;
  at::Tensor sequence;  ///< [B] int64, global
};

/// A linear layer, with whatever an adapter put beside it, and then its bias where it has one.
class LinearLayer {
 public:
  LinearLayer(Linear slot, const FindWeight& find, const Adapter* adapter, bool has_bias = false);
  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const;

 private:
  friend class LayerCall;
  Linear slot_;
  WeightHandle weight_;
  WeightHandle bias_;                       ///< of no store where there is none
  const LinearAdapter* adapter_ = nullptr;  ///< null when it declares nothing here
  std::vector<std::pair<std::string, WeightHandle>> params_;
};

class Block {
 public:
  Block(const ModelConfig& model, const std::string& name, const FindWeight& find, const Adapter* adapter);
  /// x [B,S,D] -> [B,S,D]; `rotary` from rotary_table, at least S positions.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& rotary, const Pass& pass) const;

 private:
  at::Tensor attention(const at::Tensor& x, const at::Tensor& rotary, const Pass& pass) const;
  int64_t heads_, kv_heads_, head_dim_;
  double eps_;
  WeightHandle attention_norm_, ffn_norm_;
  LinearLayer wq_, wk_, wv_, wo_, w1_, w2_, w3_;
};

}  // namespace wmtp
