#include "model/torch/block.hpp"

#include "base/error.hpp"
#include "base/random.hpp"
#include "model/torch/attention.hpp"
#include "model/torch/dropout.hpp"
#include "model/torch/ops.hpp"
#include "model/torch/parameter_layout.hpp"
#include "model/torch/tensor_parallel.hpp"
#include "model/torch/ulysses_attention.hpp"

namespace wmtp {

using at::Tensor;

/// One call of a layer's adapter, with this rank's pieces of the layer and of its parameters.
class LayerCall final : public PlacedCall {
 public:
  LayerCall(const LinearLayer& layer, const ForwardContext& context) : layer_(layer), context_(context) {}
  int64_t output_positions(int64_t positions) const override {
    return layer_.cut_ == ParameterCut::columns ? positions / context_.tensor_ranks() : positions;
  }
  bool training() const override { return context_.training; }
  Tensor base(const Tensor& x) override { return product(x, layer_.weight_, layer_.cut_); }
  Tensor linear(const Tensor& x, const std::string& param) override {
    return product(x, find(param).handle, find(param).cut);
  }
  Tensor scale(const Tensor& x, const std::string& param) override { return wmtp::scale(x, find(param).handle); }
  Tensor weight() override { return whole_rows(layer_.weight_, layer_.cut_); }
  Tensor value(const std::string& param) override { return whole_rows(find(param).handle, find(param).cut); }
  Tensor dropout(const Tensor& x, double p) override {
    if (!context_.training || p <= 0) return x;
    const uint64_t key = name_key(layer_.layer_.name, uint64_t(context_.seed));
    if (layer_.cut_ == ParameterCut::none || !context_.tensor)
      return x * dropout_factors(x, p, {key, context_.step, context_.sequence, context_.first_position(x.size(1))});
    const DropoutKey gathered{key, context_.step, context_.sequence, context_.first_gathered_position(x.size(1))};
    if (layer_.cut_ == ParameterCut::rows) return x * dropout_factors(x, p, gathered);
    const int64_t width = x.size(-1);  // draws are numbered by the features of the whole layer
    const Tensor factors =
        dropout_factors(at::empty({x.size(0), x.size(1), layer_.layer_.in}, x.options()), p, gathered);
    return x * factors.narrow(-1, context_.tensor->rank() * width, width);
  }

 private:
  /// x W^T of a weight or of this rank's piece; a sum over features of all ranks is complete.
  Tensor product(const Tensor& x, const WeightHandle& weight, ParameterCut cut) const {
    const Tensor y = wmtp::linear(x, weight);
    return cut == ParameterCut::columns && context_.tensor ? reduce_scatter_positions(y, *context_.tensor) : y;
  }
  /// The rows for this rank's outputs, with all columns.
  Tensor whole_rows(const WeightHandle& weight, ParameterCut cut) const {
    const Tensor piece = weight.weight().detach();
    const bool has_pieces = layer_.cut_ == ParameterCut::columns && cut == ParameterCut::columns && context_.tensor;
    return has_pieces ? context_.tensor->gathered(piece) : piece;
  }
  const LinearLayer::AdapterParameter& find(const std::string& param) const {
    for (const auto& one : layer_.params_)
      if (one.name == param) return one;
    throw Error(ExitStatus::plugin,
                "adapter: layer " + layer_.layer_.name + " has no declared parameter '" + param + "'");
  }
  const LinearLayer& layer_;
  const ForwardContext& context_;
};

LinearLayer::LinearLayer(Linear layer, ParameterCut cut, const FindWeight& find, const Adapter* adapter, bool has_bias)
    : layer_(std::move(layer)), cut_(cut), weight_(find(layer_.name + ".weight")) {
  if (has_bias) bias_ = find(layer_.name + ".bias");
  for (const Param& param : declared(adapter, layer_))
    params_.push_back({param.name, find(layer_.name + "." + param.name), cut_of(param, cut)});
  if (!params_.empty()) adapter_ = dynamic_cast<const LinearAdapter*>(adapter);
}

Tensor LinearLayer::operator()(const Tensor& x, const ForwardContext& context) const {
  LayerCall call(*this, context);
  Tensor y;
  if (!adapter_) {
    y = call.base(x);
  } else if (!context.tensor || cut_ == ParameterCut::none) {
    y = adapter_->forward(layer_, x, call);
  } else {
    Linear piece = layer_;
    (cut_ == ParameterCut::rows ? piece.out : piece.in) /= context.tensor->ranks();
    y = adapter_->forward(piece, x, call);
  }
  return bias_.store ? add_bias(y, bias_) : y;
}

/// The operations of a block's forward pass (model/block.hpp) on [B,S,features].
class BlockMath {
 public:
  BlockMath(const Block& block, const Tensor& rotary, const ForwardContext& context)
      : block_(block), rotary_(rotary), context_(context) {}
  Tensor norm(Layer layer, const Tensor& x) const {
    const NormLayer& norm = block_.norms_.at(layer);
    const bool is_whole = x.size(-1) == norm.width;
    return rms_norm(is_whole ? x : x.unflatten(-1, {-1, norm.width}), norm.weight, block_.model_.norm_eps);
  }
  Tensor linear(Layer layer, const Tensor& x) const { return block_.linears_.at(layer)(x, context_); }
  Tensor gathered(const Tensor& x) const { return context_.tensor ? all_gather_positions(x, *context_.tensor) : x; }
  Tensor rotate(const Tensor& x) const {
    return wmtp::rotate(heads(x), rotary_.narrow(0, context_.first_gathered_position(x.size(1)), x.size(1)));
  }
  Tensor unrotated(const Tensor& x) const { return heads(x); }
  Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value) const {
    const int64_t window = block_.model_.sliding_window;
    return context_.attention
               ? ulysses_attention(query, key, heads(value), window, context_.documents, *context_.attention)
               : causal_attention(query, key, heads(value), window, context_.documents);
  }
  Tensor swiglu(const Tensor& gate, const Tensor& up) const { return wmtp::swiglu(gate, up); }
  Tensor add(const Tensor& x, const Tensor& y) const { return x + y; }
  Tensor joined(const Tensor& x, const Tensor& y) const { return at::cat({x, y}, -1); }
  const Tensor& wanted(const Tensor& x) const { return x; }

 private:
  /// [B,S,H,head_dim]
  Tensor heads(const Tensor& x) const { return x.view({x.size(0), x.size(1), -1, head_dim(block_.model_)}); }
  const Block& block_;
  const Tensor& rotary_;
  const ForwardContext& context_;
};

Block::Block(const ModelConfig& model, const std::string& name, const FindWeight& find, const Adapter* adapter)
    : model_(model), name_(name) {
  for (const BlockLayer& layer : block_layers(model, name)) {
    const std::string full_name = name + "." + std::string(layer.name);
    if (layer.is_linear())
      linears_.try_emplace(layer.layer, Linear{full_name, layer.in, layer.out}, layer.cut(), find, adapter,
                           layer.has_bias);
    else
      norms_.emplace(layer.layer, NormLayer{find(full_name + ".weight"), layer.out});
  }
}

Tensor Block::forward(const Tensor& x, const Tensor& rotary, const ForwardContext& context,
                      const Tensor& embedded) const {
  const BlockMath math(*this, rotary, context);
  return block_forward(math, model_, name_, embedded.defined() ? chained_input(math, x, embedded) : x);
}

ValueHeadModule::ValueHeadModule(const ModelConfig& model, const ValueHead& head, const FindWeight& find)
    : head_(head) {
  for (const Linear& layer : value_head_linears(model, head))
    layers_.push_back({layer.name, find(layer.name + ".weight"), find(layer.name + ".bias")});
}

Tensor ValueHeadModule::forward(const Tensor& x, const ForwardContext& context) const {
  Tensor h = x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (i > 0) h = at::gelu(h);
    if (context.training && head_.dropout > 0) {
      const DropoutKey key{name_key(layers_[i].name, uint64_t(context.seed)), context.step, context.sequence,
                           context.first_position(h.size(1))};
      h = h * dropout_factors(h, head_.dropout, key);
    }
    h = add_bias(linear(h, layers_[i].weight), layers_[i].bias);
  }
  return h.squeeze(-1);
}

}  // namespace wmtp
