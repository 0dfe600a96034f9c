// The shape of a model: the keys of [model] and of the tables of frozen models. Those that only some architectures have
// are listed once, in shape_options, for the schema, saved models and comparisons.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/enum_names.hpp"

namespace wmtp {

enum class RopeType { none, linear, llama3, yarn };
template <>
inline constexpr auto names_of<RopeType> = std::array{"default", "linear", "llama3", "yarn"};

/// Scaling of the rotary position embedding, for sequences longer than in pretraining. Keys and formulas as in
/// transformers (modeling_rope_utils.py).
struct RopeScaling {
  RopeType rope_type = RopeType::none;  ///< none: only before defaults are resolved
  double factor = 0;                    ///< angles are divided by it
  double low_freq_factor = 0;   ///< llama3: angles with fewer rotations in the original length are divided by `factor`
  double high_freq_factor = 0;  ///< llama3: angles with more rotations are unchanged; interpolated in between
  int64_t original_max_position_embeddings = 0;  ///< llama3, yarn: the original length in tokens
  double attention_factor = 0;  ///< yarn: rotated queries and keys are multiplied by it; resolved: 0.1 ln(factor) + 1
  double beta_fast = 0;         ///< yarn: angles with more rotations in the original length are unchanged; resolved: 32
  double beta_slow = 0;  ///< yarn: angles with fewer are divided by `factor`, interpolated in between; resolved: 1
  bool operator==(const RopeScaling&) const = default;
};
/// Fills the keys of yarn that are 0.
void resolve_defaults(RopeScaling& scaling);

enum class FutureHeads { parallel, chained, shared };
template <>
inline constexpr auto names_of<FutureHeads> = std::array{"parallel", "chained", "shared"};

struct ModelConfig {
  int64_t dim = 0;
  int64_t layers = 0;  ///< trunk and heads together
  int64_t heads = 0;
  int64_t kv_heads = 0;    ///< resolved: = heads when not given
  int64_t head_dim = 0;    ///< per attention head; resolved: 0 if dim / heads
  int64_t ffn_dim = 0;     ///< resolved: Llama's rule when not given
  int64_t vocab_size = 0;  ///< resolved: the tokenizer's if there is one
  int64_t future_tokens = 4;
  FutureHeads future_heads = FutureHeads::parallel;  ///< what heads 2, 3, ... read; not in [value.model]
  std::vector<int64_t> future_offsets;               ///< see future_offset; resolved: empty if the default is given
  int64_t max_sequence_length = 0;                   ///< resolved: = train.sequence_length when not given
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling;
  double norm_eps = 1e-5;
  double embedding_multiplier = 0;     ///< factor on the embeddings, as in Granite; of these four 0: none
  double attention_multiplier = 0;     ///< factor on attention's scores, instead of 1 / sqrt(head_dim)
  double residual_multiplier = 0;      ///< factor on the outputs of attention and feed-forward
  double logits_scaling = 0;           ///< divisor of the logits
  int64_t sliding_window = 0;          ///< a token attends to this many tokens, itself included; 0: all before it
  int64_t no_rope_layer_interval = 0;  ///< every n-th block has no rotary positions (has_rotation); 0: none
  bool qkv_bias = false;               ///< projections to queries, keys and values have biases, as in Qwen2
  bool o_bias = false;                 ///< the projection of attention's output has a bias
  bool qk_norm = false;                ///< RMS norms of each head's query and key, before the rotation, as in Qwen3
  bool joint_qk_norm = false;          ///< RMS norms of all heads' queries together, and keys, as in OLMo2
  bool post_norm = false;              ///< attention and feed-forward have their norms after instead of before them
  bool tie_word_embeddings = false;    ///< the output layer uses the embedding's matrix: one parameter
  std::string weights;                 ///< "", a safetensors file or directory, or "run:NAME"
  std::string new_heads;   ///< policy only: how to fill heads missing in the weights: "copy", "new"; "": refuse
  std::string experiment;  ///< policy only: path (as written) of the stage that trains the initial weights
  bool operator==(const ModelConfig&) const = default;
};

/// How many tokens ahead head k, from 1, predicts: k, unless `offsets`, ModelConfig::future_offsets, has one for each.
inline int64_t future_offset(const std::vector<int64_t>& offsets, int64_t head) {
  return offsets.empty() ? head : offsets.at(size_t(head - 1));
}
/// That of the last head.
inline int64_t last_offset(const ModelConfig& m) {
  return m.future_offsets.empty() ? m.future_tokens : m.future_offsets.back();
}

/// A key that only some architectures have. It is omitted from a document if it has its default, so that a model
/// without it keeps the identity that it had before the key was introduced.
struct ShapeOption {
  const char* name;
  const char* help;
  std::variant<bool ModelConfig::*, int64_t ModelConfig::*, double ModelConfig::*> member;  ///< default: false or 0
  /// Whether this key must match the weights that a model starts from. head_dim and tie_word_embeddings have checks of
  /// their own.
  bool must_match_weights = false;
  int64_t least = 0, most = 0;  ///< range of an integer; other numbers are above 0
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
    {"embedding_multiplier", "factor on the embeddings that the first block reads, as in Granite",
     &ModelConfig::embedding_multiplier, true, 0, 0, "1"},
    {"attention_multiplier", "factor on the scores of attention, as in Granite", &ModelConfig::attention_multiplier,
     true, 0, 0, "1 / sqrt(`head_dim`)"},
    {"residual_multiplier", "factor on the outputs of attention and feed-forward, as in Granite",
     &ModelConfig::residual_multiplier, true, 0, 0, "1"},
    {"logits_scaling", "divisor of the logits, as in Granite", &ModelConfig::logits_scaling, true, 0, 0, "1"},
    {"tie_word_embeddings", "whether the output layer shares the matrix of the embedding",
     &ModelConfig::tie_word_embeddings},
};

/// on_option(option, member) for each option.
template <class Model, class OnOption>
void for_each_shape_option(Model& model, OnOption on_option) {
  for (const ShapeOption& option : shape_options)
    std::visit([&](auto member) { on_option(option, model.*member); }, option.member);
}

}  // namespace wmtp
