// config.json of a Hugging Face Llama or Qwen2 (a Llama with biases of queries, keys and values): written for trunk and
// head 1, read where it asks for nothing that this program does not compute.
// Knows no LibTorch.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/experiment/experiment.hpp"

namespace wmtp {

inline constexpr const char* hf_config_name = "config.json";

/// The shape, with future_tokens 1 (its layers are all there is). Error(data) names every key whose value asks for
/// something else: another architecture, positions that are turned in part or stretched otherwise than "linear" and
/// "llama3", other biases, a sliding window, quantised weights, heads of another width than hidden_size /
/// num_attention_heads; and what is out of range.
ModelConfig read_hf_config(const std::filesystem::path& folder);

/// For transformers from 4.31 on (stretched positions from 4.43): rope_theta, rope_scaling and torch_dtype stand there
/// under their old and new names. `dtype` is
/// "F32" or "BF16". Without ids of special tokens.
nlohmann::json hf_config_json(const ModelConfig& model, const std::string& dtype);

}  // namespace wmtp
