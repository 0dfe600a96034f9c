// Options that define a LoRA adapter, as stored in adapter.json (plugin `lora`) and in PEFT's adapter_config.json.
#pragma once

#include <filesystem>
#include <optional>
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
  double plus_ratio = 1;             ///< affects training only; PEFT has no key for it
  std::vector<std::string> targets;  ///< as in the experiment; the tensors show which layers they chose
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

/// PEFT's names of modules: "q_proj", "self_attn.q_proj", "model.layers.0.self_attn.q_proj".
struct PeftModules {
  std::optional<std::vector<std::string>> targets;  ///< that get an update; nullopt: given by a regular expression
  std::optional<std::vector<int64_t>> layers;       ///< numbers of the blocks to which `targets` is restricted
  std::vector<std::string> saved;                   ///< that train as a whole ("modules_to_save")

  /// Whether `targets` contains the layer, a module of block `number`.
  bool are_targets(const std::string& module, int64_t number) const;
  /// Whether the parameter belongs to one of `saved`, by PEFT's rule: the end of a module's name.
  bool are_saved(const std::string& parameter) const;
};

/// `base`: folder from which PEFT's AutoPeftModel loads the base model; "" if unknown.
Json peft_config_json(const LoraOptions& lora, const PeftModules& modules, const std::string& base);

/// What PEFT's files say of the base: a name or a path, and a revision; "" if they do not. It identifies no model.
struct StatedBase {
  std::string name, revision;
};

struct PeftConfig {
  LoraOptions lora;  ///< without targets
  PeftModules modules;
  StatedBase base;
};
/// Error(data) names every key that requires more than LoRA, rsLoRA or DoRA of one rank on linear layers of blocks, and
/// modules that train as a whole.
PeftConfig read_peft_config(const std::filesystem::path& folder);

/// A parameter that LoRA adds to a linear layer, in our names and PEFT's.
struct LoraPart {
  std::string name, peft_suffix;           ///< "lora_A", "lora_A.weight"
  std::vector<int64_t> shape, peft_shape;  ///< [1,out] and [out] for DoRA's magnitude, else equal
  bool has_rows_of_weight = false;         ///< its rows, or elements, are reordered together with those of the weight
};
std::vector<LoraPart> lora_parts(const LoraOptions& lora, const BlockLayer& layer);

}  // namespace wmtp
