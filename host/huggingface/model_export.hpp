// Exports a finished model to formats of other programs.
//   hf    a Hugging Face Llama: the trunk, with head 1's block as last layer (model.safetensors, config.json). Parts
//         that a Llama cannot hold, the blocks of heads 2, 3, … and value heads, go into mtp_heads.safetensors
//         and mtp_heads.json under Meta's names, so that import_model restores the same model.
//   meta  Meta's names and row order, all heads in one file (consolidated.00.safetensors, params.json).
//         On request modeling_wmtp.py computes all heads in transformers (trust_remote_code); without it config.json
//         names transformers' own class.
// Tokenizer files are copied; for this program's own tokenizers, hf also gets a tokenizer.json with the same ids
// (tokenizer/tokenizer_export.hpp). hf also copies the chat template and generation_config.json.
// Tensors are streamed one by one and checked against the checksums of a manifest, if there is one. A crash leaves
// a draft (io/draft.hpp), which no reader opens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/json.hpp"
#include "huggingface/params_file.hpp"

namespace wmtp {

enum class ModelFormat { hf, meta };

/// max_position_embeddings of a model whose length is unknown: the default of transformers' LlamaConfig.
inline constexpr int64_t default_sequence_length = 2048;

struct ModelExport {
  std::filesystem::path model;   ///< a folder with params.json: a run's model/, or an imported one
  std::filesystem::path target;  ///< must not exist, or be empty
  ModelFormat format = ModelFormat::hf;
  std::string dtype = "F32";  ///< or BF16; value heads stay in fp32
  bool modeling = false;      ///< hf: adds code with which transformers computes all heads
};

struct ExportedModel {
  bool has_tokenizer = false;
  int64_t heads = 1;
  bool has_sequence_length = false;  ///< if not, config.json gets 2048, the default of transformers
};

/// Error(data) if the model is damaged, incomplete, or predicts no tokens (a critic); Error(usage) for an unusable
/// target; Error(storage).
ExportedModel export_model(const ModelExport& request);

/// Writes the tokenizer of a model, of `saved`, as Hugging Face has it, with the chat files. Returns whether the model
/// has one.
bool export_tokenizer(const std::filesystem::path& model, const SavedShape& saved, const std::filesystem::path& target);

/// Copies Hugging Face files that do not affect the computation, unless they are there: chat_template.jinja,
/// generation_config.json.
void copy_chat_files(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace wmtp
