// Options that define a LoRA adapter, as stored in adapter.json (plugin `lora`) and in PEFT's adapter_config.json.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "experiment/experiment.hpp"
#include "model/model_tensors.hpp"

namespace wmtp {

inline constexpr const char* peft_config_name = "adapter_config.json";
inline constexpr const char* peft_tensors_name = "adapter_model.safetensors";

struct LoraOptions {
  int64_t rank = 0;
  double alpha = 0, dropout = 0;
  bool rslora = false, dora = false;
  double plus_ratio = 1;            ///< affects training only; PEFT has no key for it
  std::vector<LayerNames> targets;  ///< in the given order
};

OptionValues option_values(const LoraOptions& lora);

struct SavedLora {
  LoraOptions options;
  std::string base_fingerprint;
  std::string base_path;  ///< "" if unknown
};
/// Reads adapter.json written by the plugin `lora`. Error(data) for another plugin, or for an unknown option, which
/// might change the meaning of the numbers.
SavedLora read_saved_lora(const std::filesystem::path& folder);

/// `base`: folder from which PEFT's AutoPeftModel loads the base model; "" if unknown.
Json peft_config_json(const LoraOptions& lora, const std::string& base);

/// Error(data) names every key that requires more than LoRA, rsLoRA or DoRA of one rank on linear layers of every
/// block. `targets` contains the listed layers; empty for a pattern.
LoraOptions read_peft_config(const std::filesystem::path& folder);

/// A parameter that LoRA adds to a linear layer, in our names and PEFT's.
struct LoraPart {
  std::string name, peft_suffix;           ///< "lora_A", "lora_A.weight"
  std::vector<int64_t> shape, peft_shape;  ///< [1,out] and [out] for DoRA's magnitude, else equal
  bool has_rows_of_weight = false;         ///< its rows, or elements, are reordered together with those of the weight
};
std::vector<LoraPart> lora_parts(const LoraOptions& lora, const BlockLayer& layer);

}  // namespace wmtp
