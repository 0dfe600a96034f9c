#include "engine/model/block.hpp"

#include "base/error.hpp"
#include "base/philox.hpp"
#include "engine/model/attention.hpp"
#include "engine/model/dropout.hpp"
#include "engine/model/layout.hpp"
#include "engine/model/ops.hpp"

namespace wmtp {

using at::Tensor;

/// One call of a slot's adapter.
class LayerCall final : public LinearCall {
 public:
  LayerCall(const LinearLayer& slot, const Pass& pass) : slot_(slot), pass_(pass) {}
  bool training() const override { return pass_.training; }
  Tensor base(const Tensor& x) override { return wmtp::linear(x, slot_.weight_); }
  Tensor linear(const Tensor& x, const std::string& param) override { return wmtp::linear(x, handle(param)); }
  Tensor scale(const Tensor& x, const std::string& param) override { return wmtp::scale(x, handle(param)); }
  Tensor weight() override { return slot_.weight_.weight().detach(); }
  Tensor value(const std::string& param) override { return handle(param).weight().detach(); }
  Tensor dropout(const Tensor& x, double p) override {
    if (!pass_.training || p <= 0) return x;
    return x * dropout_factors(x, p, {name_key(slot_.slot_.name, uint64_t(pass_.seed)), pass_.step, pass_.sequence});
  }

 private:
  const WeightHandle& handle(const std::string& param) const {
    for (const auto& [name, handle] : slot_.params_)
      if (name == param) return handle;
    throw Error(ExitStatus::plugin, "adapter: slot " + slot_.slot_.name + " declares no parameter '" + param + "'");
  }
  const LinearLayer& slot_;
  const Pass& pass_;
};

LinearLayer::LinearLayer(Linear slot, const FindWeight& find, const Adapter* adapter, bool has_bias)
    : slot_(std::move(slot)), weight_(find(slot_.name + ".weight")) {
  if (has_bias) bias_ = find(slot_.name + ".bias");
  for (const Param& param : declared(adapter, slot_))
    params_.emplace_back(param.name, find(slot_.name + "." + param.name));
  if (!params_.empty()) adapter_ = dynamic_cast<const LinearAdapter*>(adapter);
}

Tensor LinearLayer::operator()(const Tensor& x, const Pass& pass) const {
  LayerCall call(*this, pass);
  const Tensor y = adapter_ ? adapter_->forward(slot_, x, call) : linear(x, weight_);
  return bias_.store ? add_bias(y, bias_) : y;
}

namespace {
LinearLayer make_slot(const ModelConfig& model, const std::string& block, int which, const FindWeight& find,
                      const Adapter* adapter) {
  const Linear slot = block_linears(model, block)[size_t(which)];
  return LinearLayer(slot, find, adapter, has_bias(model, slot));
}
}  // namespace

Block::Block(const ModelConfig& model, const std::string& name, const FindWeight& find, const Adapter* adapter)
    : heads_(model.heads),
      kv_heads_(model.kv_heads),
      head_dim_(wmtp::head_dim(model)),
      eps_(model.norm_eps),
      attention_norm_(find(name + ".attention_norm.weight")),
      ffn_norm_(find(name + ".ffn_norm.weight")),
      wq_(make_slot(model, name, 0, find, adapter)),
      wk_(make_slot(model, name, 1, find, adapter)),
      wv_(make_slot(model, name, 2, find, adapter)),
      wo_(make_slot(model, name, 3, find, adapter)),
      w1_(make_slot(model, name, 4, find, adapter)),
      w2_(make_slot(model, name, 5, find, adapter)),
      w3_(make_slot(model, name, 6, find, adapter)) {}

Tensor Block::attention(const Tensor& x, const Tensor& rotary, const Pass& pass) const {
  const int64_t B = x.size(0), S = x.size(1);
  const Tensor table = rotary.narrow(0, 0, S);
  const Tensor query = rotate(wq_(x, pass).view({B, S, heads_, head_dim_}), table);
  const Tensor key = rotate(wk_(x, pass).view({B, S, kv_heads_, head_dim_}), table);
  const Tensor value = wv_(x, pass).view({B, S, kv_heads_, head_dim_});
  return wo_(causal_attention(query, key, value), pass);
}

Tensor Block::forward(const Tensor& x, const Tensor& rotary, const Pass& pass) const {
  const Tensor h = x + attention(rms_norm(x, attention_norm_, eps_), rotary, pass);
  const Tensor n = rms_norm(h, ffn_norm_, eps_);
  return h + w2_(swiglu(w1_(n, pass), w3_(n, pass)), pass);
}

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
