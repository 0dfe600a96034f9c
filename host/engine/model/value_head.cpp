#include "engine/model/value_head.hpp"

#include "engine/model/layout.hpp"
#include "engine/model/ops.hpp"

namespace wmtp {

using at::Tensor;

ValueHeadModule::ValueHeadModule(const ModelConfig& model, const ValueHead& head, const FindWeight& find)
    : head_(head) {
  for (const Linear& slot : value_head_linears(model, head))
    layers_.emplace_back(find(slot.name + ".weight"), find(slot.name + ".bias"));
}

Tensor ValueHeadModule::forward(const Tensor& x) const {
  Tensor h = x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (i > 0) h = at::gelu(h);
    h = add_bias(linear(h, layers_[i].first), layers_[i].second);
  }
  return h.squeeze(-1);
}

}  // namespace wmtp
