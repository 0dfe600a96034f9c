// The blocks (model/block.hpp) and value heads for training. Pure computation on weight handles, independent of
// storage and ranks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>
#include <wmtp/adapter.hpp>
#include <wmtp/pipeline.hpp>

#include "model/block.hpp"
#include "model/torch/attention.hpp"
#include "model/torch/rank_exchange.hpp"
#include "model/torch/weight_store.hpp"

namespace wmtp {

using FindWeight = std::function<WeightHandle(const std::string& parameter)>;

/// Parameters of a forward pass besides its input. They key random draws, so that recomputation draws the same numbers.
struct ForwardContext {
  bool training = false;
  int64_t seed = 0;
  int64_t step = 0;
  at::Tensor sequence;  ///< [B] int64, global
  Documents documents;  ///< of all positions
  /// The ranks that have other positions of the same sequences and the same features of a block; null: none.
  const RankExchange* attention = nullptr;
  /// The ranks that divide a block's features at the same positions; null: this rank has all of them.
  const RankExchange* tensor = nullptr;

  int64_t tensor_ranks() const { return tensor ? tensor->ranks() : 1; }
  /// The position in its sequence of the first of `count` that this rank has in the residual stream, and of the first
  /// of `count` gathered ones inside a block.
  int64_t first_position(int64_t count) const {
    return first_gathered_position(count * tensor_ranks()) + (tensor ? tensor->rank() * count : 0);
  }
  int64_t first_gathered_position(int64_t count) const { return attention ? attention->rank() * count : 0; }
};

/// A call whose output may have other rows than its input.
class PlacedCall : public LinearCall {
 public:
  /// The positions of the output, for an input of [B,positions,features].
  virtual int64_t output_positions(int64_t positions) const = 0;
};

/// A linear layer, followed by its adapter and its bias, if any. Its weight is cut under tensor parallelism
/// (BlockLayer::cut): by rows, it reads gathered positions and computes this rank's features; by columns, it reads this
/// rank's features at gathered positions, and its output is the sum over ranks, at this rank's own positions.
class LinearLayer {
 public:
  LinearLayer(Linear layer, ParameterCut cut, const FindWeight& find, const Adapter* adapter, bool has_bias = false);
  at::Tensor operator()(const at::Tensor& x, const ForwardContext& context) const;

 private:
  friend class LayerCall;
  struct AdapterParameter {
    std::string name;
    WeightHandle handle;
    ParameterCut cut;
  };

  Linear layer_;  ///< with the sizes of the whole
  ParameterCut cut_;
  WeightHandle weight_;
  WeightHandle bias_;                       ///< has no store if there is no bias
  const LinearAdapter* adapter_ = nullptr;  ///< null if it declares nothing for this layer
  std::vector<AdapterParameter> params_;
};

/// RMS norm over groups of `width` features, with a shared weight [width].
struct NormLayer {
  WeightHandle weight;
  int64_t width;
};

class Block {
 public:
  Block(const ModelConfig& model, const std::string& name, const FindWeight& find, const Adapter* adapter);
  /// x [B,S,D] -> [B,S,D]; `rotary` from rotary_table, for at least S positions. A chained head's block reads x, the
  /// output of the head before, together with `embedded` [B,S,D]; for others that is undefined.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& rotary, const ForwardContext& context,
                     const at::Tensor& embedded = {}) const;

 private:
  friend class BlockMath;
  ModelConfig model_;
  std::string name_;
  std::map<Layer, NormLayer> norms_;
  std::map<Layer, LinearLayer> linears_;
};

/// A value head: one number per position from the normed trunk output, in fp32. "linear" d -> 1; "mlp" d -> d/4 ->
/// d/8 -> 1 with GELU between (as in weighted_mtp's value_head.py).
class ValueHeadModule {
 public:
  ValueHeadModule(const ModelConfig& model, const ValueHead& head, const FindWeight& find);
  const std::string& name() const { return head_.name; }
  const ValueHead& head() const { return head_; }
  /// x [B,S,D] fp32 -> [B,S].
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const;

 private:
  struct Layer {
    std::string name;
    WeightHandle weight, bias;
  };
  ValueHead head_;
  std::vector<Layer> layers_;
};

}  // namespace wmtp
