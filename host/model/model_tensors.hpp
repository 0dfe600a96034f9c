// All tensors of a multi-token-prediction Llama, in the order of the forward pass, with shapes and their names in
// Meta's and Hugging Face's files. Trunk blocks and the next-token head are layers.0 … layers.(L-n), the other heads
// extra_heads.0 … extra_heads.(n-2); they share one norm and output (Gloeckle et al., arXiv 2404.19737). Chained heads
// (model/block.hpp) are extra heads with three more tensors; shared ones have those of extra_heads.0 together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/block.hpp"

namespace wmtp {

inline constexpr const char* embedding_weight = "tok_embeddings.weight";
inline constexpr const char* hf_embedding_weight = "model.embed_tokens.weight";
inline constexpr const char* output_weight = "output.weight";
inline constexpr const char* hf_output_weight = "lm_head.weight";
inline bool is_of_value_head(const std::string& tensor) { return tensor.starts_with("value_heads."); }

struct ModelTensor {
  enum class Kind { embedding, norm, linear, bias };

  std::string name;            ///< "layers.0.attention.wq.weight", "extra_heads.0.feed_forward.w1.weight"
  std::string hf_name;         ///< "model.layers.0.self_attn.q_proj.weight"; "" for the blocks of heads 2, 3, …
  std::vector<int64_t> shape;  ///< [out] or [out,in]
  Kind kind = Kind::norm;
  int64_t head = 0;              ///< the first head that uses it; 0: used by the trunk
  int64_t rotary_heads = 0;      ///< of BlockLayer
  bool writes_residual = false;  ///< of BlockLayer
  ParameterCut cut = ParameterCut::none;

  std::string unit() const;
  /// Whether a model may hold only zeros here: a bias, and the layers that published initializations begin with zeros,
  /// which are queries, the output (both muP), and what writes the residual stream (blocks that begin as identities).
  bool may_be_zero() const;
};

/// Of a tensor or an adapter's parameter, by name. Tensors of a unit are gathered and reduced together: a block, the
/// embedding, the norm or the output.
std::string unit_of(std::string_view tensor);

/// The names of the units of what is not the model's own.
inline constexpr const char *adapter_unit_name = "adapter", *value_heads_unit_name = "value_heads";

/// Without output.weight if embeddings are tied.
std::vector<ModelTensor> model_tensors(const ModelConfig& model);
int64_t num_parameters(const ModelConfig& model);

std::string trunk_block_name(int64_t block);
/// "layers.N", after the trunk, for the first head; "extra_heads.0" … for the others, if they are shared the same for
/// all of them. `head` is 1-based.
std::string head_block_name(const ModelConfig& model, int64_t head);
/// Whether this is a block or belongs to one.
bool is_in_block(std::string_view name);
/// The blocks of the trunk, then of the heads, each once.
std::vector<std::string> block_names(const ModelConfig& model);

/// Whether a tensor in another program's file is a buffer determined by rope_theta and the shape.
bool is_derived_buffer(const std::string& name);

}  // namespace wmtp
