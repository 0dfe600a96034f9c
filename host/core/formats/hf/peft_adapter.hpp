// Adapters of the plugin lora as PEFT's, and back.
//
// A PEFT folder: adapter_config.json, adapter_model.safetensors, with Hugging Face's names and order of rows. It stands
// beside the Hugging Face Llama that export_model makes of the base: trunk and head 1. What PEFT has no place for lies
// beside it: the updates of heads 2, 3, … with our names (mtp_adapter.safetensors), and plus_ratio and the fingerprint
// of the base (mtp_adapter.json). So export and import give the same adapter back bit for bit. Durable as every
// product; a crash leaves TARGET.tmp-PID. Knows no LibTorch.
#pragma once

#include <filesystem>

#include "core/formats/hf/lora_options.hpp"

namespace wmtp {

inline constexpr const char* extra_adapter_tensors_name = "mtp_adapter.safetensors";
inline constexpr const char* extra_adapter_identity_name = "mtp_adapter.json";
inline constexpr int extra_adapter_format_version = 1;

/// A folder's path from the root on, without a slash at its end.
std::string absolute_text(const std::filesystem::path& folder);

struct AdapterExport {
  std::filesystem::path adapter;  ///< a run's adapter/, or an imported one
  std::filesystem::path shape;    ///< a model of the same shape as the base: the run's merged one, or the base itself
  std::filesystem::path target;   ///< not there yet, or empty
  bool shape_is_base = false;     ///< whether its fingerprint must be the one that the adapter names
};
/// Error(data) when the adapter is damaged, of another plugin, or does not fit the shape.
LoraOptions export_adapter(const AdapterExport& request);

struct AdapterImport {
  std::filesystem::path source;  ///< with adapter_config.json
  std::filesystem::path base;    ///< the model it stands beside, imported: its fingerprint becomes the adapter's
  std::filesystem::path target;  ///< not there yet, or empty
};
/// Gives the options that [adapter] needs to read it. Error(data) for what the plugin lora cannot be, for a base with
/// heads 2, 3, … of which the files say nothing, and for another base than the files name.
LoraOptions import_adapter(const AdapterImport& request);

/// fingerprint_text of a model as an adapter beside it knows it. Reads all of it.
std::string model_fingerprint(const std::filesystem::path& model);

}  // namespace wmtp
