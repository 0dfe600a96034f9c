#include "core/formats/hf/model_tensors.hpp"

namespace wmtp {

const std::array<Projection, 7>& projections() {
  static const std::array<Projection, 7> all{{{"attention.wq", "self_attn.q_proj"},
                                              {"attention.wk", "self_attn.k_proj"},
                                              {"attention.wv", "self_attn.v_proj"},
                                              {"attention.wo", "self_attn.o_proj"},
                                              {"feed_forward.w1", "mlp.gate_proj"},
                                              {"feed_forward.w2", "mlp.down_proj"},
                                              {"feed_forward.w3", "mlp.up_proj"}}};
  return all;
}

ProjectionShape shape_of(const Projection& projection, const ModelConfig& model) {
  const int64_t query = model.heads * head_dim(model), key = model.kv_heads * head_dim(model);
  const std::string_view target = projection.target();
  if (target == "wq") return {query, model.dim, model.heads};
  if (target == "wk") return {key, model.dim, model.kv_heads};
  if (target == "wv") return {key, model.dim};
  if (target == "wo") return {model.dim, query};
  if (target == "w2") return {model.dim, model.ffn_dim};
  return {model.ffn_dim, model.dim};
}

std::vector<std::string> block_names(const ModelConfig& model) {
  std::vector<std::string> names;
  for (int64_t i = 0; i <= num_trunk_blocks(model); ++i) names.push_back("layers." + std::to_string(i));
  for (int64_t i = 0; i + 1 < model.future_tokens; ++i) names.push_back("extra_heads." + std::to_string(i));
  return names;
}

std::string first_head_block(const ModelConfig& model) { return "layers." + std::to_string(num_trunk_blocks(model)); }

bool is_derived_buffer(const std::string& name) {
  return name == "rope.freqs" || name.ends_with(".rotary_emb.inv_freq");
}

std::vector<ModelTensor> model_tensors(const ModelConfig& model) {
  std::vector<ModelTensor> all{{embedding_weight, hf_embedding_weight, {model.vocab_size, model.dim}}};
  for (const std::string& block : block_names(model)) {
    const bool in_hf = block.starts_with("layers.");
    const auto add = [&](std::string_view name, std::string_view hf_name, const std::string& kind,
                         std::vector<int64_t> shape, int64_t heads) {
      all.push_back({block + "." + std::string(name) + kind,
                     in_hf ? "model." + block + "." + std::string(hf_name) + kind : "", std::move(shape), heads});
    };
    add("attention_norm", "input_layernorm", ".weight", {model.dim}, 0);
    add("ffn_norm", "post_attention_layernorm", ".weight", {model.dim}, 0);
    for (const Projection& projection : projections()) {
      const ProjectionShape shape = shape_of(projection, model);
      add(projection.name, projection.hf_name, ".weight", {shape.out, shape.in}, shape.rotary_heads);
      const std::string_view target = projection.target();
      if (model.qkv_bias && (target == "wq" || target == "wk" || target == "wv"))
        add(projection.name, projection.hf_name, ".bias", {shape.out}, shape.rotary_heads);
    }
  }
  all.push_back({"norm.weight", "model.norm.weight", {model.dim}});
  if (!model.tie_word_embeddings) all.push_back({output_weight, hf_output_weight, {model.vocab_size, model.dim}});
  return all;
}

}  // namespace wmtp
