// A finished model as other programs read it.
//   hf    a Hugging Face Llama: trunk, and head 1's block as last layer (model.safetensors, config.json). What such a
//         Llama has no place for, the blocks of heads 2, 3, … and value heads, lies beside it with Meta's names
//         (mtp_heads.safetensors, mtp_heads.json), so that import_model gives the same model back.
//   meta  Meta's names and order of rows, all heads in one file (consolidated.00.safetensors, params.json).
// The tokenizer's files are copied where the model has them; of one of this program's own, which have no tokenizer.json,
// hf writes one with the same ids (core/tokenizer/tokenizer_export.hpp). A chat template and generation_config.json go along.
// Tensors pass one after another; sums of a manifest beside them are compared on the way. A crash leaves
// TARGET.tmp-PID, which no reader looks at. Knows no LibTorch.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace wmtp {

inline constexpr size_t longest_tokenizer = size_t{64} << 20;
inline constexpr const char* hf_model_name = "model.safetensors";
inline constexpr const char* heads_tensors_name = "mtp_heads.safetensors";
inline constexpr const char* heads_identity_name = "mtp_heads.json";
inline constexpr int heads_format_version = 1;

enum class ModelFormat { hf, meta };

struct ModelExport {
  std::filesystem::path model;   ///< a folder with params.json: a run's model/, or an imported one
  std::filesystem::path target;  ///< not there yet, or empty
  ModelFormat format = ModelFormat::hf;
  std::string dtype = "F32";  ///< or BF16; value heads stay in fp32
};

struct ExportedModel {
  bool has_tokenizer = false;
  bool has_sequence_length = false;  ///< else the config says 2048, as transformers does when nobody says
};

/// Error(data) when the model is damaged, incomplete, or predicts no tokens (a critic's); Error(usage) for the target;
/// Error(storage).
ExportedModel export_model(const ModelExport& request);

/// Copies what of a Hugging Face folder says nothing of the numbers and is wanted by its programs: chat_template.jinja,
/// generation_config.json.
void copy_companions(const std::filesystem::path& from, const std::filesystem::path& to);

/// Copies a tokenizer's files (core/tokenizer/tokenizer_files.hpp) from one folder to another; whether there were any.
bool copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace wmtp
