#include "model/layout.hpp"

#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace wmtp {
namespace {

constexpr double base_deviation = 0.02;

/// The residual stream sums 2 * layers outputs of wo and w2; scaling them keeps its variance independent of depth.
double deviation_of(const Slot& slot, const ModelConfig& model) {
  const bool writes_residual = slot.name.ends_with(".wo") || slot.name.ends_with(".w2");
  return writes_residual ? base_deviation / std::sqrt(2.0 * double(model.layers)) : base_deviation;
}

class Builder {
 public:
  explicit Builder(const LayoutRequest& request) : request_(request), model_(*request.model) {}

  std::vector<UnitSpec> build() {
    unit("tok_embeddings", {matrix("tok_embeddings.weight", model_.vocab_size, model_.dim, base_deviation)});
    for (int64_t i = 0; i < num_trunk_blocks(model_); ++i) block(trunk_block_name(i));
    const int64_t heads = request_.heads == Heads::first ? 1 : model_.future_tokens;
    for (int64_t k = 1; k <= heads; ++k) block(head_block_name(model_, k));
    unit("norm", {norm("norm.weight")});
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
    for (const Slot& slot : block_slots(model_, name)) {
      parameters.push_back(matrix(slot.name + ".weight", slot.out, slot.in, deviation_of(slot, model_)));
      if (request_.adapter) declare(slot);
    }
    unit(name, std::move(parameters));
  }

  void declare(const Slot& slot) {
    for (const Param& param : request_.adapter->declare(slot)) {
      if (param.shape.size() != 2 || param.shape[0] < 1 || param.shape[1] < 1)
        throw Error(ExitStatus::plugin, "adapter: parameter '" + param.name + "' of " + slot.name +
                                            " must have two dimensions of at least 1");
      const Init init = param.init == Param::Init::uniform ? Init{Init::Kind::uniform, param.bound} : Init{};
      adapter_.push_back({slot.name + "." + param.name, param.shape, init, true, true});
    }
  }

  void value_heads() {
    if (request_.value_heads.empty()) return;
    std::vector<ParameterSpec> parameters;
    for (const ValueHead& head : request_.value_heads) {
      if (head.kind != "linear")
        throw Error(ExitStatus::plugin, "value head '" + head.name + "': kind '" + head.kind +
                                            "' is not supported; this version has: linear");
      const std::string prefix = "value_heads." + head.name;
      parameters.push_back({prefix + ".weight", {1, model_.dim}, {}, true, true});
      parameters.push_back({prefix + ".bias", {1, 1}, {}, false, true});
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

std::string trunk_block_name(int64_t block) { return "layers." + std::to_string(block); }

std::string head_block_name(const ModelConfig& model, int64_t head) {
  return head == 1 ? trunk_block_name(num_trunk_blocks(model)) : "extra_heads." + std::to_string(head - 2);
}

std::vector<Slot> block_slots(const ModelConfig& model, const std::string& block) {
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

std::vector<UnitSpec> model_units(const LayoutRequest& request) { return Builder(request).build(); }

}  // namespace wmtp
