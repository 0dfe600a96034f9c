// The keys of [model] that only some architectures have. They are omitted from a document if they have their default,
// so that a model without them keeps the identity that it had before they were introduced.
#pragma once

#include <cstdint>
#include <variant>

#include "experiment/experiment.hpp"

namespace wmtp {

struct ShapeOption {
  const char* name;
  const char* help;
  std::variant<bool ModelConfig::*, int64_t ModelConfig::*> member;  ///< default: false or 0
  /// Whether this key must match the weights that a model starts from. head_dim and tie_word_embeddings have checks of
  /// their own.
  bool must_match_weights = false;
  int64_t least = 0, most = 0;  ///< range of a number
  const char* default_text = "`false`";
};

inline constexpr ShapeOption shape_options[] = {
    {"qkv_bias", "whether the projections to queries, keys and values have biases, as in Qwen2", &ModelConfig::qkv_bias,
     true},
    {"o_bias",
     "whether the projection of attention's output has a bias; with `qkv_bias`, Hugging Face's `attention_bias`",
     &ModelConfig::o_bias, true},
    {"qk_norm", "whether each head's query and key are normalized before they are rotated, as in Qwen3",
     &ModelConfig::qk_norm, true},
    {"joint_qk_norm",
     "whether the queries of all heads, and their keys, are normalized together before they are rotated, as in OLMo2; "
     "not with `qk_norm`",
     &ModelConfig::joint_qk_norm, true},
    {"post_norm",
     "whether the outputs of attention and feed-forward are normalized instead of their inputs, as in OLMo2",
     &ModelConfig::post_norm, true},
    {"head_dim", "number of features of an attention head, even; `heads * head_dim` need not be `dim`, as in Qwen3",
     &ModelConfig::head_dim, false, 2, 65536, "`dim / heads`"},
    {"sliding_window", "number of tokens that a token attends to, including itself, as in Mistral",
     &ModelConfig::sliding_window, false, 1, 1 << 20, "all preceding tokens"},
    {"no_rope_layer_interval",
     "every block whose number, counted from 1, is a multiple of this has no rotary positions, as in SmolLM3; the "
     "blocks of all heads are like that of head 1",
     &ModelConfig::no_rope_layer_interval, true, 1, 1024, "all blocks have them"},
    {"tie_word_embeddings", "whether the output layer shares the matrix of the embedding",
     &ModelConfig::tie_word_embeddings},
};

/// call(option, member) for each option.
template <class Model, class Call>
void for_each_shape_option(Model& model, Call call) {
  for (const ShapeOption& option : shape_options)
    std::visit([&](auto member) { call(option, model.*member); }, option.member);
}

}  // namespace wmtp
