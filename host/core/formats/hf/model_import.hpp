// Models of other programs as a folder like a run's model/: fp32 with Meta's names, params.json, manifest.json, which
// [model] weights, [reference] weights and `checkpoint export` take.
//   Hugging Face  config.json beside model.safetensors, or beside the files of model.safetensors.index.json; heads 2,
//   3,
//                 … and value heads from mtp_heads.safetensors, where export_model left them
//   Meta          params.json beside one safetensors file with Meta's names; all heads in it
// Weights may be fp32, bf16 or fp16. Tensors pass one after another. A crash leaves TARGET.tmp-PID, which no reader
// looks at. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/experiment/experiment.hpp"

namespace wmtp {

struct ModelImport {
  std::filesystem::path source;  ///< a folder
  std::filesystem::path target;  ///< not there yet, or empty
  int64_t future_tokens = 0;     ///< where above 0: heads that are not in the files begin as copies of the last block
};

struct ImportedModel {
  ModelConfig model;
  std::string tokenizer;           ///< of params.json; "" where none was kept
  std::string tokenizer_left_out;  ///< why a tokenizer.json, or the only tokenizer, was not kept, or ""
};

/// What was written. Error(data) names every tensor that is missing, has another shape, or has no place,
/// and every key that asks for something else than a plain Llama; pickles are refused with the command that converts
/// them. Error(usage) for the target and for future_tokens that the files contradict.
ImportedModel import_model(const ModelImport& request);

}  // namespace wmtp
