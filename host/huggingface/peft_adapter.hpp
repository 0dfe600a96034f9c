// Converts adapters of the plugin `lora` to PEFT folders and back, without loss.
//
// A PEFT folder (adapter_config.json, adapter_model.safetensors, with Hugging Face's names and row order) belongs to
// the Hugging Face Llama that export_model creates from the base: trunk and head 1. Parameters that trained beside LoRA
// are PEFT's modules_to_save. Parts that PEFT cannot hold go into separate files: updates and parameters of heads 2, 3,
// … under our names (mtp_adapter.safetensors), and plus_ratio and the fingerprint of the base (mtp_adapter.json). A
// crash leaves a draft.
#pragma once

#include <filesystem>

#include "huggingface/lora_options.hpp"

namespace wmtp {

/// The absolute, normalized path without a trailing slash. Error(usage) if it is not UTF-8: no experiment can name it.
std::string absolute_text(const std::filesystem::path& folder);

struct AdapterExport {
  std::filesystem::path adapter;  ///< a run's adapter/, a checkpoint with one, or an imported one
  std::filesystem::path shape;    ///< a model of the same shape as the base: the run's merged model, or the base itself
  std::filesystem::path target;   ///< must not exist, or be empty
  bool shape_is_base = false;     ///< whether its fingerprint must equal the adapter's
  std::string base_name = {};     ///< what PEFT loads as base; "": the folder of the base, if it is known
};
/// Also copies the tokenizer of `shape`. Error(data) if the adapter is damaged, belongs to another plugin, does not fit
/// the shape, or holds what PEFT cannot: parts of a module, embeddings tied to the output, or only heads 2, 3, …
void export_adapter(const AdapterExport& request);

struct AdapterImport {
  std::filesystem::path source;  ///< with adapter_config.json
  std::filesystem::path base;    ///< the imported model to adapt; the adapter records its fingerprint
  std::filesystem::path target;  ///< must not exist, or be empty
};
struct ImportedAdapter {
  LoraOptions lora;
  std::vector<std::string> train;  ///< patterns of the model's parameters that the files contain
  StatedBase base;                 ///< empty if a fingerprint identified the base
};
/// Returns the keys of [adapter] needed to load it. Error(data) for features that `lora` does not support, and for a
/// base other than the one named in the files.
ImportedAdapter import_adapter(const AdapterImport& request);

}  // namespace wmtp
