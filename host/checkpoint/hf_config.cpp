// See hf_config.hpp.
#include "checkpoint/hf_config.hpp"

#include "checkpoint/foreign_keys.hpp"
#include "checkpoint/model_limits.hpp"

namespace wmtp {
namespace {

using nlohmann::json;

/// The positions are turned as in the first Llama: `part` is rope_scaling (older files) or rope_parameters.
bool is_plain_rope(const json& part) {
  if (!part.is_object()) return false;
  for (const auto& [key, value] : part.items()) {
    const bool plain = key == "rope_theta" || value.is_null() ||
                       ((key == "rope_type" || key == "type") && value == "default") ||
                       (key == "partial_rotary_factor" && value == 1.0);
    if (!plain) return false;
  }
  return true;
}

double read_rope(ForeignKeys& keys) {
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (keys.has(key) && !is_plain_rope(keys.value(key))) keys.refuse(key, "positions that are not scaled");
  if (!keys.has("rope_parameters") || !keys.value("rope_parameters").is_object())
    return keys.positive("rope_theta", 10000.0);
  const json& parameters = keys.value("rope_parameters");
  const json theta = parameters.value("rope_theta", json());
  if (theta.is_null()) return keys.positive("rope_theta", 10000.0);
  if (theta.is_number() && theta.get<double>() > 0 && theta.get<double>() < 1e300) return theta;
  keys.refuse("rope_parameters", "a rope_theta above 0");
  return 10000.0;
}

void check_architecture(ForeignKeys& keys) {
  if (!keys.has("model_type")) keys.refuse("model_type", "\"llama\"");
  keys.only("model_type", {"llama"});
  keys.only("architectures", {json::array({"LlamaForCausalLM"})});
  keys.only("hidden_act", {"silu", "swish"});
  for (const char* key : {"tie_word_embeddings", "attention_bias", "mlp_bias", "use_sliding_window"})
    keys.only(key, {false});
  keys.only("partial_rotary_factor", {1.0});
  for (const char* key : {"sliding_window", "quantization_config", "num_local_experts"}) keys.only(key, {});
}

}  // namespace

ModelConfig read_hf_config(const std::filesystem::path& folder) {
  ForeignKeys keys(folder / hf_config_name);
  check_architecture(keys);
  ModelConfig model;
  model.future_tokens = 1;
  model.dim = keys.integer("hidden_size", 2, max_dim);
  model.layers = keys.integer("num_hidden_layers", 1, max_layers);
  model.heads = keys.integer("num_attention_heads", 1, max_heads);
  model.kv_heads = keys.integer("num_key_value_heads", 1, max_heads, model.heads);
  model.ffn_dim = keys.integer("intermediate_size", 1, max_ffn_dim);
  model.vocab_size = keys.integer("vocab_size", 2, max_vocabulary);
  model.max_sequence_length = keys.integer("max_position_embeddings", 2, max_positions, 2048);
  model.norm_eps = keys.positive("rms_norm_eps", 1e-6);
  model.rope_theta = read_rope(keys);
  for (const std::string& mistake : head_mistakes(model)) keys.refuse("num_attention_heads", mistake);
  if (model.dim % model.heads == 0) keys.only("head_dim", {head_dim(model)});
  keys.finish("only plain Llamas are imported");
  return model;
}

json hf_config_json(const ModelConfig& model, const std::string& dtype) {
  const char* name = dtype == "BF16" ? "bfloat16" : "float32";
  return {{"architectures", {"LlamaForCausalLM"}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"bos_token_id", nullptr},
          {"dtype", name},
          {"eos_token_id", nullptr},
          {"head_dim", head_dim(model)},
          {"hidden_act", "silu"},
          {"hidden_size", model.dim},
          {"intermediate_size", model.ffn_dim},
          {"max_position_embeddings", model.max_sequence_length},
          {"mlp_bias", false},
          {"model_type", "llama"},
          {"num_attention_heads", model.heads},
          {"num_hidden_layers", num_trunk_blocks(model) + 1},
          {"num_key_value_heads", model.kv_heads},
          {"rms_norm_eps", model.norm_eps},
          {"rope_parameters", {{"rope_theta", model.rope_theta}, {"rope_type", "default"}}},
          {"rope_theta", model.rope_theta},
          {"tie_word_embeddings", false},
          {"torch_dtype", name},
          {"vocab_size", model.vocab_size}};
}

}  // namespace wmtp
