// All tensors of a multi-token-prediction Llama: Meta's name, shape, and the name in a Hugging Face Llama, which is the
// trunk with head 1's block as last layer. A test compares this with engine/model/layout.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/experiment/experiment.hpp"

namespace wmtp {

inline constexpr const char* embedding_weight = "tok_embeddings.weight";
inline constexpr const char* hf_embedding_weight = "model.embed_tokens.weight";
inline constexpr const char* output_weight = "output.weight";
inline constexpr const char* hf_output_weight = "lm_head.weight";

struct ModelTensor {
  std::string name;     ///< "layers.0.attention.wq.weight", "extra_heads.0.feed_forward.w1.weight"
  std::string hf_name;  ///< "model.layers.0.self_attn.q_proj.weight"; "" for the blocks of heads 2, 3, …
  std::vector<int64_t> shape;
  int64_t rotary_heads = 0;  ///< wq and wk, weight and bias: the number of heads in their rows; 0 for all others
};

/// A linear layer of a block.
struct Projection {
  std::string_view name;                                                                ///< "attention.wq"
  std::string_view hf_name;                                                             ///< "self_attn.q_proj"
  std::string_view target() const { return name.substr(name.find('.') + 1); }           ///< "wq"
  std::string_view hf_target() const { return hf_name.substr(hf_name.find('.') + 1); }  ///< "q_proj"
};

/// In the order wq, wk, wv, wo, w1, w2, w3.
const std::array<Projection, 7>& projections();
/// Rows (out) and columns (in); rotary_heads as in ModelTensor.
struct ProjectionShape {
  int64_t out = 0, in = 0, rotary_heads = 0;
};
ProjectionShape shape_of(const Projection& projection, const ModelConfig& model);

/// "layers.0" … (trunk and head 1), then "extra_heads.0" … .
std::vector<std::string> block_names(const ModelConfig& model);
/// "layers.N": the block of head 1.
std::string first_head_block(const ModelConfig& model);

/// In the order of the forward pass; without output.weight if embeddings are tied.
std::vector<ModelTensor> model_tensors(const ModelConfig& model);

/// Whether a tensor of another program's file is a buffer that rope_theta and the shape determine.
bool is_derived_buffer(const std::string& name);

}  // namespace wmtp
