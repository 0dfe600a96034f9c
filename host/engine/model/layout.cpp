#include "engine/model/layout.hpp"

#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace wmtp {
namespace {

constexpr double base_deviation = 0.02;

/// The residual stream sums 2 * layers outputs of wo and w2; scaling them keeps its variance independent of depth.
double deviation_of(const Linear& slot, const ModelConfig& model) {
  const bool writes_residual = slot.name.ends_with(".wo") || slot.name.ends_with(".w2");
  return writes_residual ? base_deviation / std::sqrt(2.0 * double(model.layers)) : base_deviation;
}

Init init_of(const Param& param) {
  if (param.init == Param::Init::uniform) return {Init::Kind::uniform, param.bound};
  return {param.init == Param::Init::row_norms ? Init::Kind::row_norms : Init::Kind::zeros, 0};
}

class Builder {
 public:
  explicit Builder(const LayoutRequest& request) : request_(request), model_(*request.model) {}

  std::vector<UnitSpec> build() {
    unit("tok_embeddings", {matrix("tok_embeddings.weight", model_.vocab_size, model_.dim, base_deviation)});
    for (int64_t i = 0; i < num_trunk_blocks(model_); ++i) block(trunk_block_name(i));
    for (int64_t k = 1; k <= num_heads(model_, request_.heads); ++k) block(head_block_name(model_, k));
    unit("norm", {norm("norm.weight")});
    if (request_.heads != Heads::none && !model_.tie_word_embeddings)
      unit("output", {matrix("output.weight", model_.vocab_size, model_.dim, base_deviation)});
    value_heads();
    if (!adapter_.empty()) unit("adapter", std::move(adapter_));
    return std::move(units_);
  }

 private:
  bool trains(const std::string& name) const { return request_.adapter && request_.adapter->trains(name); }
  ParameterSpec matrix(const std::string& name, int64_t rows, int64_t columns, double deviation) const {
    return {name, {rows, columns}, {Init::Kind::normal, deviation}, true, trains(name)};
  }
  ParameterSpec norm(const std::string& name) const {
    return {name, {model_.dim}, {Init::Kind::ones, 0}, request_.decay_norms, trains(name)};
  }
  void unit(const std::string& name, std::vector<ParameterSpec> parameters) {
    units_.push_back({name, std::move(parameters)});
  }

  void block(const std::string& name) {
    std::vector<ParameterSpec> parameters{norm(name + ".attention_norm.weight"), norm(name + ".ffn_norm.weight")};
    for (const Linear& slot : block_linears(model_, name)) {
      parameters.push_back(matrix(slot.name + ".weight", slot.out, slot.in, deviation_of(slot, model_)));
      if (has_bias(model_, slot)) {
        const std::string bias = slot.name + ".bias";
        parameters.push_back({bias, {slot.out}, Init{}, request_.decay_norms, trains(bias)});
      }
      declare(slot);
    }
    unit(name, std::move(parameters));
  }

  void declare(const Linear& slot) {
    for (const Param& param : declared(request_.adapter, slot))
      adapter_.push_back(
          {slot.name + "." + param.name, param.shape, init_of(param), param.decays, true, param.lr_scale});
  }

  void value_heads() {
    if (request_.value_heads.empty()) return;
    std::vector<ParameterSpec> parameters;
    for (const ValueHead& head : request_.value_heads) {
      const std::vector<Linear> slots = value_head_linears(model_, head);
      for (const Linear& slot : slots) {
        // The last layer is zero, so that a head's first values are zero; the others are like torch's Linear.
        const Init init =
            slot.name == slots.back().name ? Init{} : Init{Init::Kind::uniform, 1 / std::sqrt(double(slot.in))};
        const bool trains = request_.adapter != nullptr;
        const double lr_scale = request_.value_head_lr_scale;
        parameters.push_back({slot.name + ".weight", {slot.out, slot.in}, init, true, trains, lr_scale});
        parameters.push_back({slot.name + ".bias", {1, slot.out}, init, false, trains, lr_scale});
      }
    }
    unit("value_heads", std::move(parameters));
    units_.back().always_fp32 = true;
  }

  const LayoutRequest& request_;
  const ModelConfig& model_;
  std::vector<UnitSpec> units_;
  std::vector<ParameterSpec> adapter_;
};

}  // namespace

int64_t ParameterSpec::count() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<Param> declared(const Adapter* adapter, const Linear& layer) {
  const auto* const adds = dynamic_cast<const LinearAdapter*>(adapter);
  return adds ? adds->declare(layer) : std::vector<Param>();
}

std::string trunk_block_name(int64_t block) { return "layers." + std::to_string(block); }

std::string head_block_name(const ModelConfig& model, int64_t head) {
  return head == 1 ? trunk_block_name(num_trunk_blocks(model)) : "extra_heads." + std::to_string(head - 2);
}

std::string adapted_weight(const std::string& adapter_parameter) {
  return adapter_parameter.substr(0, adapter_parameter.rfind('.')) + ".weight";
}

std::vector<Linear> block_linears(const ModelConfig& model, const std::string& block) {
  const int64_t query = model.heads * head_dim(model), key = model.kv_heads * head_dim(model);
  const std::string attention = block + ".attention.", feed_forward = block + ".feed_forward.";
  return {{attention + "wq", model.dim, query},
          {attention + "wk", model.dim, key},
          {attention + "wv", model.dim, key},
          {attention + "wo", query, model.dim},
          {feed_forward + "w1", model.dim, model.ffn_dim},
          {feed_forward + "w2", model.ffn_dim, model.dim},
          {feed_forward + "w3", model.dim, model.ffn_dim}};
}

bool has_bias(const ModelConfig& model, const Linear& slot) {
  const auto is = [&](const char* layer) { return slot.name.ends_with(layer); };
  return model.qkv_bias && (is(".wq") || is(".wk") || is(".wv"));
}

std::vector<Linear> value_head_linears(const ModelConfig& model, const ValueHead& head) {
  std::vector<int64_t> widths{model.dim};
  if (head.kind == "mlp")
    for (const int64_t part : {4, 8}) widths.push_back(std::max<int64_t>(1, model.dim / part));
  else if (head.kind != "linear")
    throw Error(ExitStatus::plugin,
                "value head '" + head.name + "': kind '" + head.kind + "' is unknown; available are linear and mlp");
  widths.push_back(1);
  std::vector<Linear> slots;
  for (size_t i = 0; i + 1 < widths.size(); ++i)
    slots.push_back({"value_heads." + head.name + "." + std::to_string(i), widths[i], widths[i + 1]});
  return slots;
}

int64_t num_heads(const ModelConfig& model, Heads heads) {
  switch (heads) {
    case Heads::all:
      return model.future_tokens;
    case Heads::first:
      return 1;
    case Heads::none:
      return 0;
  }
  return 0;
}

std::vector<UnitSpec> model_units(const LayoutRequest& request) { return Builder(request).build(); }

}  // namespace wmtp
