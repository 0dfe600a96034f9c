// Imports models from other programs into a folder like a run's model/: fp32 tensors with Meta's names, params.json and
// manifest.json, usable as [model] weights, [reference] weights and for `checkpoint export`.
//   Hugging Face  config.json with model.safetensors, or with the files of model.safetensors.index.json; heads 2, 3, …
//                 and value heads from mtp_heads.safetensors if export_model wrote one
//   Meta          params.json with one safetensors file with Meta's names and all heads
// Weights may be fp32, bf16 or fp16. Tensors are streamed one by one. A crash leaves a draft (io/draft.hpp), which no
// reader opens.
#pragma once

#include <cstdint>
#include <filesystem>

#include "huggingface/params_file.hpp"

namespace wmtp {

struct ModelImport {
  std::filesystem::path source;  ///< a folder
  std::filesystem::path target;  ///< must not exist, or be empty
  int64_t future_tokens = 0;     ///< if positive, heads missing in the files start as copies of the last block
};

struct ImportedModel {
  ModelConfig model;
  SavedTokenizer tokenizer;        ///< none: none was kept
  std::string tokenizer_left_out;  ///< why a tokenizer.json, or the only tokenizer, was not kept; "" if it was
};

/// Sets saved.tokenizer to the tokenizer in a Hugging Face folder: tokenizer.json if this program can read it and no
/// edited setting says otherwise, else tokenizer.model. Returns why the first candidate is not used, or "".
std::string find_tokenizer(const std::filesystem::path& folder, SavedShape& saved);

/// Files of others are neither copied from an untrusted folder nor quoted in messages: Error(data) if a text file of
/// the model is a link out of its folder. Weights may be links to anywhere: what contains no tensors is refused.
void check_texts(const std::filesystem::path& folder);

/// Error(data) names every tensor that is missing, misshapen or unexpected and every key that requires more than a
/// plain Llama, and the first tensor that a copy did not fill; a pickle is refused with the command that converts it.
/// Error(usage) for an unusable target and for a future_tokens that contradicts the files.
ImportedModel import_model(const ModelImport& request);

}  // namespace wmtp
