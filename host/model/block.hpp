// The single definition of a Llama block: names and shapes of its layers, and its forward pass. The layout and weight
// conversion use the layers; training (model/torch/block.cpp) and decoding (inference/cached_model.cpp) run the
// forward pass with their own operations. Add norms, biases and layers of a block here.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/experiment.hpp"
#include "model/parameter_piece.hpp"

namespace wmtp {

enum class Layer { attention_norm, ffn_norm, q_norm, k_norm, wq, wk, wv, wo, w1, w2, w3, hnorm, enorm, eh_proj };

/// The names of a layer in Meta's files, which this program also uses, and in Hugging Face's.
struct LayerNames {
  Layer layer;
  std::string_view name;                                                                ///< "attention.wq"
  std::string_view hf_name;                                                             ///< "self_attn.q_proj"
  std::string_view target() const { return name.substr(name.find('.') + 1); }           ///< "wq"
  std::string_view hf_target() const { return hf_name.substr(hf_name.find('.') + 1); }  ///< "q_proj"
};

// In storage order of their parameters: norms, then linear layers.
inline constexpr std::array<LayerNames, 4> norm_layers{{{Layer::attention_norm, "attention_norm", "input_layernorm"},
                                                        {Layer::ffn_norm, "ffn_norm", "post_attention_layernorm"},
                                                        {Layer::q_norm, "attention.q_norm", "self_attn.q_norm"},
                                                        {Layer::k_norm, "attention.k_norm", "self_attn.k_norm"}}};
inline constexpr std::array<LayerNames, 7> linear_layers{{{Layer::wq, "attention.wq", "self_attn.q_proj"},
                                                          {Layer::wk, "attention.wk", "self_attn.k_proj"},
                                                          {Layer::wv, "attention.wv", "self_attn.v_proj"},
                                                          {Layer::wo, "attention.wo", "self_attn.o_proj"},
                                                          {Layer::w1, "feed_forward.w1", "mlp.gate_proj"},
                                                          {Layer::w2, "feed_forward.w2", "mlp.down_proj"},
                                                          {Layer::w3, "feed_forward.w3", "mlp.up_proj"}}};
/// The further layers of a chained head's block (is_chained), under DeepSeek-V3's names.
inline constexpr std::array<LayerNames, 3> chain_layers{
    {{Layer::hnorm, "hnorm", ""}, {Layer::enorm, "enorm", ""}, {Layer::eh_proj, "eh_proj", ""}}};

/// A layer of a block: a norm with a weight [out], over all features, or those of each head, or a linear layer with a
/// weight [out,in]. out is 0 if the model has no such layer.
struct BlockLayer : LayerNames {
  int64_t out = 0;
  int64_t in = 0;            ///< 0: a norm
  int64_t rotary_heads = 0;  ///< number of heads in its output if they are rotated, else 0
  bool has_bias = false;     ///< [out]
  bool is_linear() const { return in > 0; }
  /// Whether its output is added to the residual stream.
  bool writes_residual() const { return layer == Layer::wo || layer == Layer::w2; }
  /// How tensor parallelism cuts its weight: the layers inside of attention and feed-forward by features of their own,
  /// those that write the residual stream by features that they read. A bias is cut with the rows.
  ParameterCut cut() const {
    if (writes_residual()) return ParameterCut::columns;
    const bool is_inside =
        layer == Layer::wq || layer == Layer::wk || layer == Layer::wv || layer == Layer::w1 || layer == Layer::w3;
    return is_inside ? ParameterCut::rows : ParameterCut::none;
  }
};

/// N of "layers.N" or "extra_heads.N".
inline int64_t block_number(std::string_view block) {
  return std::stoll(std::string(block.substr(block.find('.') + 1)));
}

/// Whether this block of the model rotates queries and keys. The blocks of heads 2, 3, ... are like that of head 1, of
/// which an import makes copies.
inline bool has_rotation(const ModelConfig& model, std::string_view block) {
  if (model.no_rope_layer_interval == 0) return true;
  const int64_t index = block.starts_with("layers.") ? block_number(block) : num_trunk_blocks(model);
  return (index + 1) % model.no_rope_layer_interval != 0;
}

/// The layer's size in blocks of this model.
inline BlockLayer block_layer(const LayerNames& names, const ModelConfig& model) {
  const int64_t query = model.heads * head_dim(model), key = model.kv_heads * head_dim(model);
  switch (names.layer) {
    case Layer::attention_norm:
      if (model.post_norm) return {{names.layer, names.name, "post_attention_layernorm"}, model.dim};
      return {names, model.dim};
    case Layer::ffn_norm:
      if (model.post_norm) return {{names.layer, names.name, "post_feedforward_layernorm"}, model.dim};
      return {names, model.dim};
    case Layer::hnorm:
    case Layer::enorm:
      return {names, model.dim};
    case Layer::eh_proj:
      return {names, model.dim, 2 * model.dim};
    case Layer::q_norm:
      if (model.joint_qk_norm) return {names, query, 0, model.heads};
      return model.qk_norm ? BlockLayer{names, head_dim(model), 0, 1} : BlockLayer{names};
    case Layer::k_norm:
      if (model.joint_qk_norm) return {names, key, 0, model.kv_heads};
      return model.qk_norm ? BlockLayer{names, head_dim(model), 0, 1} : BlockLayer{names};
    case Layer::wq:
      return {names, query, model.dim, model.heads, model.qkv_bias};
    case Layer::wk:
      return {names, key, model.dim, model.kv_heads, model.qkv_bias};
    case Layer::wv:
      return {names, key, model.dim, 0, model.qkv_bias};
    case Layer::wo:
      return {names, model.dim, query, 0, model.o_bias};
    case Layer::w1:
    case Layer::w3:
      return {names, model.ffn_dim, model.dim};
    case Layer::w2:
      return {names, model.dim, model.ffn_dim};
  }
  return {names};
}

/// Whether this is the block of a head that also reads the embedding of a token: of heads 2, 3, ... if they are
/// chained.
inline bool is_chained(const ModelConfig& model, std::string_view block) {
  return has_chained_heads(model) && block.starts_with("extra_heads.");
}

/// All layers of the block of this name, in the order above.
inline std::vector<BlockLayer> block_layers(const ModelConfig& model, std::string_view block) {
  std::vector<BlockLayer> layers;
  for (const LayerNames& names : norm_layers)
    if (const BlockLayer layer = block_layer(names, model); layer.out > 0) layers.push_back(layer);
  for (const LayerNames& names : linear_layers) layers.push_back(block_layer(names, model));
  if (is_chained(model, block))
    for (const LayerNames& names : chain_layers) layers.push_back(block_layer(names, model));
  return layers;
}

/// Whether a tensor belongs to chain_layers.
inline bool is_chain_tensor(std::string_view tensor) {
  return tensor.ends_with(".hnorm.weight") || tensor.ends_with(".enorm.weight") || tensor.ends_with(".eh_proj.weight");
}

/// The keys of [model] that determine whether a tensor exists.
inline const char* config_keys_for_tensor(std::string_view tensor) {
  if (tensor == "output.weight") return "tie_word_embeddings";
  if (tensor.ends_with(".q_norm.weight") || tensor.ends_with(".k_norm.weight")) return "qk_norm and joint_qk_norm";
  if (is_chain_tensor(tensor)) return "future_heads";
  if (tensor.ends_with(".wo.bias")) return "o_bias";
  return tensor.ends_with(".bias") ? "qkv_bias" : "layers and future_tokens";
}

/// Whether the block's input is embeddings, which are multiplied: the first block's, or each head's on an empty trunk.
/// Those that a chained head also reads are normed, which leaves no factor.
inline bool reads_embeddings(const ModelConfig& model, std::string_view block) {
  return block == "layers.0" || (num_trunk_blocks(model) == 0 && !is_chained(model, block));
}

/// Factor on queries: attention multiplies scores by 1 / sqrt(head_dim). 0: none.
inline double query_factor(const ModelConfig& model) {
  return model.attention_multiplier * std::sqrt(double(head_dim(model)));
}

/// Factor on what the output layer reads.
inline double logit_factor(const ModelConfig& model) { return model.logits_scaling > 0 ? 1 / model.logits_scaling : 1; }

/// x times a factor of the model; 0: none.
template <class Rows>
Rows scaled(const Rows& x, double factor) {
  return factor == 0 || factor == 1 ? x : x * factor;
}

/// The forward pass, with the operations of `math`. Rows holds a row of features per token, and can be multiplied.
///   Rows norm(Layer, Rows)      RMS norm with the layer's weight
///   Rows gathered(Rows)         the rows of all ranks that divide the features of the layers which follow; the last of
///                               these layers, which writes the residual stream, returns each rank's own rows
///   Rows linear(Layer, Rows)    with the layer's bias and adapter
///   Rows rotate(Rows)           rotary positions, applied to each head
///   Rows unrotated(Rows)        the heads without positions
///   Rows attention(query, key, value), swiglu(gate, up), add(Rows, Rows)
///   Rows joined(Rows, Rows)     the features of both
///   Rows wanted(Rows)           the rows of the tokens whose output is needed: when decoding, the others only need
///                               keys and values
template <class Math, class Rows>
Rows attention_part(Math& math, const ModelConfig& model, std::string_view block, const Rows& normed) {
  const bool has_norms = model.qk_norm || model.joint_qk_norm;
  const Rows all = math.gathered(normed);
  const auto heads = [&](Layer norm, const Rows& x) { return has_norms ? math.norm(norm, x) : x; };
  const auto placed = [&](const Rows& x) { return has_rotation(model, block) ? math.rotate(x) : math.unrotated(x); };
  const Rows query = placed(heads(Layer::q_norm, math.linear(Layer::wq, math.wanted(all))));
  const Rows key = placed(heads(Layer::k_norm, math.linear(Layer::wk, all)));
  const Rows value = math.linear(Layer::wv, all);
  return math.linear(Layer::wo, math.attention(scaled(query, query_factor(model)), key, value));
}

template <class Math, class Rows>
Rows feed_forward_part(Math& math, const Rows& normed) {
  const Rows all = math.gathered(normed);
  const Rows gate = math.linear(Layer::w1, all), up = math.linear(Layer::w3, all);
  return math.linear(Layer::w2, math.swiglu(gate, up));
}

template <class Math, class Rows>
Rows block_forward(Math& math, const ModelConfig& model, std::string_view block, const Rows& x) {
  const auto attention = [&](const Rows& normed) { return attention_part(math, model, block, normed); };
  const auto feed_forward = [&](const Rows& normed) { return feed_forward_part(math, normed); };
  const auto part = [&](Layer norm, const auto& of, const Rows& input) {
    const Rows output = model.post_norm ? math.norm(norm, of(input)) : of(math.norm(norm, input));
    return scaled(output, model.residual_multiplier);
  };
  const Rows read = scaled(x, reads_embeddings(model, block) ? model.embedding_multiplier : 1);
  const Rows h = math.add(math.wanted(read), part(Layer::attention_norm, attention, read));
  return math.add(h, part(Layer::ffn_norm, feed_forward, h));
}

/// The input of a chained head's block, from the output of the head before at a position, and the embedding of the
/// token that this head predicts there (DeepSeek-V3, arXiv 2412.19437, section 2.2).
template <class Math, class Rows>
Rows chained_input(Math& math, const Rows& before, const Rows& embedded) {
  const Rows token = math.norm(Layer::enorm, embedded), hidden = math.norm(Layer::hnorm, before);
  return math.linear(Layer::eh_proj, math.joined(token, hidden));
}

}  // namespace wmtp
