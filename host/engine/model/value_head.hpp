// A value head: one number a position from the normed trunk output, in fp32. "linear" d -> 1; "mlp" d -> d/4 -> d/8 ->
// 1 with GELU between (as in weighted_mtp's value_head.py). Pure compute on handles, like a block.
#pragma once

#include <utility>
#include <vector>
#include <wmtp/pipeline.hpp>

#include "engine/model/block.hpp"

namespace wmtp {

class ValueHeadModule {
 public:
  ValueHeadModule(const ModelConfig& model, const ValueHead& head, const FindWeight& find);
  const std::string& name() const { return head_.name; }
  const ValueHead& head() const { return head_; }
  /// x [B,S,D] fp32 -> [B,S].
  at::Tensor forward(const at::Tensor& x) const;

 private:
  ValueHead head_;
  std::vector<std::pair<WeightHandle, WeightHandle>> layers_;  ///< weight, bias
};

}  // namespace wmtp
