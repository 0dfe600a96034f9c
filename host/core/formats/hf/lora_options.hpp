// What a LoRA adapter's numbers mean something with, as adapter.json of the plugin `lora` and PEFT's
// adapter_config.json say it. Knows no LibTorch.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "core/formats/hf/model_tensors.hpp"

namespace wmtp {

inline constexpr const char* peft_config_name = "adapter_config.json";
inline constexpr const char* peft_tensors_name = "adapter_model.safetensors";

struct LoraOptions {
  int64_t rank = 0;
  double alpha = 0, dropout = 0;
  bool rslora = false, dora = false;
  double plus_ratio = 1;            ///< of the training alone; PEFT has no word for it
  std::vector<Projection> targets;  ///< in the order in which they are given
};

/// All options of the plugin.
OptionValues option_values(const LoraOptions& lora);

struct SavedLora {
  LoraOptions options;
  std::string base_fingerprint;
  std::string base_path;  ///< "" where it is not known
};
/// Of a folder that a run with the plugin `lora` left. Error(data) for another plugin, or an option that is not known
/// here and might change what the numbers mean.
SavedLora read_saved_lora(const std::filesystem::path& folder);

/// `base`: the folder by which PEFT's AutoPeftModel opens the base; "" where it is not known.
nlohmann::json peft_config_json(const LoraOptions& lora, const std::string& base);

/// Error(data) names every key whose value asks for more than LoRA, rsLoRA or DoRA of one rank on linear layers of
/// every block. `targets` has those that the config lists; of a pattern, none.
LoraOptions read_peft_config(const std::filesystem::path& folder);

/// The parameters beside one linear layer, in our names and PEFT's.
struct LoraPart {
  std::string name, peft_suffix;           ///< "lora_A", "lora_A.weight"
  std::vector<int64_t> shape, peft_shape;  ///< [1,out] and [out] for DoRA's magnitude; else the same
  bool has_rows_of_weight = false;         ///< its rows, or elements, are the weight's: they go where those go
};
std::vector<LoraPart> lora_parts(const LoraOptions& lora, const ProjectionShape& shape);

}  // namespace wmtp
