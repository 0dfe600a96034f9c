// Folders of Hugging Face models: Llama and its relatives. Writes config.json for trunk and head 1; reads it
// unless it requires something that this program does not compute.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "experiment/experiment.hpp"
#include "huggingface/params_file.hpp"

namespace wmtp {

inline constexpr const char* hf_config_name = "config.json";
inline constexpr const char* hf_model_name = "model.safetensors";
// Parts that a Hugging Face model cannot hold: heads 2, 3, … and value heads (model_export.hpp).
inline constexpr const char* heads_tensors_name = "mtp_heads.safetensors";
inline constexpr const char* heads_identity_name = "mtp_heads.json";
inline constexpr int heads_format_version = 1;

/// "Llama, Qwen2, … and OLMo2".
std::string hf_families();

/// Whether a folder contains config.json, and its tensors have the names of Hugging Face if it contains params.json,
/// too (Mistral publishes both).
bool is_hf_folder(const std::filesystem::path& folder);
/// Whether a folder contains params.json (Meta's or our own), and is no folder of Hugging Face.
bool is_params_folder(const std::filesystem::path& folder);
/// The weights that transformers reads: model.safetensors, without it the folder of the files listed in the index.
std::filesystem::path hf_files(const std::filesystem::path& folder);

/// Error(data) with the commands that import both, if a folder contains a PEFT adapter next to a model: transformers
/// applies it, this program would ignore it.
void check_no_adapter_beside(const std::filesystem::path& folder);

/// The shape, with future_tokens 1. Error(data) names every key that is out of range or requires an unsupported
/// feature: another architecture, partial rotary positions, scaling other than "linear", "llama3" and "yarn", other
/// biases, a sliding window in some blocks only, attention that is not causal, quantized weights.
ModelConfig read_hf_config(const std::filesystem::path& folder);
/// The shape with the heads of mtp_heads.json, if the folder has one; without tokenizer and ids.
SavedShape read_hf_shape(const std::filesystem::path& folder);

/// Keys of config.json that ask for dropout, which is not applied to a model's activations: "attention_dropout is 0.1
/// there and 0 here: ...". Those of classifiers and summaries do not count: they are of heads that no model here has.
std::vector<std::string> dropout_differences(const std::filesystem::path& folder);

/// "auto_map names "modeling_x.py", which is not read: computed as a plain Llama" if config.json names code for models
/// that is not our own export's; code for configurations and tokenizers does not count. One text, or none.
std::vector<std::string> code_differences(const std::filesystem::path& folder);

/// Both, for weights to train.
std::vector<std::string> training_differences(const std::filesystem::path& folder);

/// For transformers 4.31 and later (scaled positions: 4.43), with both old and new names of rope_theta, rope_scaling
/// and torch_dtype; without ids of special tokens. `dtype`: "F32" or "BF16".
Json hf_config_json(const ModelConfig& model, const std::string& dtype);

}  // namespace wmtp
