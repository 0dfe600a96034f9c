// Formats: peft 0.21, LoraConfig and save_and_load.
#include "huggingface/lora_options.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "checkpoint/adapter_identity.hpp"
#include "huggingface/external_json.hpp"

namespace wmtp {
namespace {

constexpr int64_t max_rank = 65536;  // as in the plugin

std::vector<std::string> read_names(ExternalJson& keys, const char* key, const std::string& wanted) {
  const Json& value = keys.value(key);
  if (value.is_array() && std::ranges::all_of(value, [](const Json& name) { return name.is_string(); })) return value;
  keys.refuse(key, wanted);
  return {};
}

/// A regular expression is not evaluated: the tensors show what it chose.
std::optional<std::vector<std::string>> read_target_modules(ExternalJson& keys) {
  constexpr const char* key = "target_modules";
  if (!keys.has(key) || keys.value(key).is_string()) return std::nullopt;
  const std::string wanted = "names of linear layers of Llama's blocks";
  std::vector<std::string> names = read_names(keys, key, wanted);
  for (const std::string& name : names)
    if (std::ranges::none_of(linear_layers, [&](const LayerNames& layer) {
          return layer.hf_target() == std::string_view(name).substr(name.rfind('.') + 1);
        })) {
      keys.refuse(key, wanted);
      break;
    }
  return names;
}

std::optional<std::vector<int64_t>> read_layers(ExternalJson& keys) {
  constexpr const char* key = "layers_to_transform";
  if (!keys.has(key)) return std::nullopt;
  const Json value = keys.value(key).is_array() ? keys.value(key) : Json::array({keys.value(key)});
  keys.only("layers_pattern", {"", "layers", Json::array({"layers"})});
  if (value.empty()) return std::nullopt;  // as in PEFT
  if (std::ranges::all_of(value, [](const Json& number) { return number.is_number_integer(); }))
    return value.get<std::vector<int64_t>>();
  keys.refuse(key, "numbers of layers");
  return std::nullopt;
}

/// 16 rather than 16.0, like PEFT.
Json plain_number(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? Json(int64_t(value)) : Json(value);
}

double read_dropout(ExternalJson& keys, const char* key) {
  if (!keys.has(key)) return 0;
  const Json& value = keys.value(key);
  if (value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 0.99) return value;
  keys.refuse(key, "a number from 0 to 0.99");
  return 0;
}

/// Keys of later PEFT versions that are off or empty have no effect either.
bool is_off(const Json& value) { return value.is_null() || value == false || value.empty() || value == ""; }

}  // namespace

OptionValues option_values(const LoraOptions& lora) {
  return {{"rank", lora.rank},     {"alpha", lora.alpha}, {"dropout", lora.dropout},      {"targets", lora.targets},
          {"rslora", lora.rslora}, {"dora", lora.dora},   {"plus_ratio", lora.plus_ratio}};
}

SavedLora read_saved_lora(const std::filesystem::path& folder) {
  ExternalJson keys(folder / adapter_identity_name);
  SavedLora saved;
  keys.integer("format_version", adapter_format_version, adapter_format_version);
  if (!keys.has("plugin")) keys.refuse("plugin", "\"lora\"");
  keys.only("plugin", {lora_adapter});
  if (!keys.has("options") || !keys.value("options").is_object()) keys.refuse("options", "the plugin's options");
  saved.base_fingerprint = keys.text("base_fingerprint", "the fingerprint of the model it was trained on");
  saved.base_path = keys.text("base_path");
  keys.finish("only adapters of the plugin lora are exported");
  ExternalJson options(keys.value("options"), (folder / adapter_identity_name).string() + ": options");
  LoraOptions& lora = saved.options;
  lora.rank = options.integer("rank", 1, max_rank);
  lora.alpha = options.has("alpha") && options.value("alpha") == 0.0 ? 0 : options.positive("alpha");
  lora.dropout = read_dropout(options, "dropout");
  lora.rslora = options.flag("rslora", false);
  lora.dora = options.flag("dora", false);
  lora.plus_ratio = options.positive("plus_ratio", 1.0);
  if (options.has("targets"))
    lora.targets = read_names(options, "targets", "a list of linear layers");
  else
    options.refuse("targets", "a list of linear layers");
  const OptionValues known = option_values(lora);
  for (const auto& [name, value] : options.all().items())
    if (!known.contains(name)) options.refuse(name, "no such key: the option is unknown");
  options.finish("read it with the program that wrote it");
  return saved;
}

bool PeftModules::are_targets(const std::string& module, int64_t number) const {
  return targets && std::ranges::any_of(*targets, [&](const std::string& target) {
           if (module == target) return true;
           const bool is_in_layers = !layers || std::ranges::find(*layers, number) != layers->end();
           return is_in_layers && module.ends_with("." + target);
         });
}

bool PeftModules::are_saved(const std::string& parameter) const {
  for (size_t dot = parameter.find('.'); dot != std::string::npos; dot = parameter.find('.', dot + 1)) {
    const std::string module = parameter.substr(0, dot);
    if (std::ranges::any_of(saved, [&](const std::string& end) { return module.ends_with(end); })) return true;
  }
  return false;
}

Json peft_config_json(const LoraOptions& lora, const PeftModules& modules, const std::string& base) {
  return {{"base_model_name_or_path", base.empty() ? Json() : Json(base)},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"lora_alpha", plain_number(lora.alpha)},
          {"lora_dropout", lora.dropout},
          {"modules_to_save", modules.saved.empty() ? Json() : Json(modules.saved)},
          {"peft_type", "LORA"},
          {"r", lora.rank},
          {"target_modules", modules.targets.value()},
          {"task_type", "CAUSAL_LM"},
          {"use_dora", lora.dora},
          {"use_rslora", lora.rslora}};
}

PeftConfig read_peft_config(const std::filesystem::path& folder) {
  // Keys that are read below or do not affect the computation.
  static const std::set<std::string> known{"auto_mapping",
                                           "base_model_name_or_path",
                                           "bias",
                                           "inference_mode",
                                           "init_lora_weights",
                                           "layers_pattern",
                                           "layers_to_transform",
                                           "lora_alpha",
                                           "lora_dropout",
                                           "megatron_core",
                                           "modules_to_save",
                                           "peft_type",
                                           "peft_version",
                                           "qalora_group_size",
                                           "r",
                                           "revision",
                                           "runtime_config",
                                           "target_modules",
                                           "task_type",
                                           "use_dora",
                                           "use_rslora"};
  ExternalJson keys(folder / peft_config_name);
  if (!keys.has("peft_type")) keys.refuse("peft_type", "\"LORA\"");
  keys.only("peft_type", {"LORA"});
  keys.only("task_type", {"CAUSAL_LM"});
  keys.only("bias", {"none"});
  // Other methods change the base's weights before training.
  keys.only("init_lora_weights", {true, false, "gaussian", "orthogonal"});
  keys.refuse_unknown(known, is_off,
                      [](const std::string&) { return "no value: the plugin lora does not support it"; });
  PeftConfig config;
  LoraOptions& lora = config.lora;
  lora.rank = keys.integer("r", 1, max_rank);
  lora.alpha = keys.positive("lora_alpha", 8.0);
  lora.dropout = read_dropout(keys, "lora_dropout");
  lora.rslora = keys.flag("use_rslora", false);
  lora.dora = keys.flag("use_dora", false);
  config.modules.targets = read_target_modules(keys);
  config.modules.layers = read_layers(keys);
  if (keys.has("modules_to_save")) config.modules.saved = read_names(keys, "modules_to_save", "names of modules");
  config.base = {keys.text("base_model_name_or_path"), keys.text("revision")};
  keys.finish(
      "only LoRA, rsLoRA and DoRA of one rank are imported; PEFT's merge_and_unload() makes a model of any adapter "
      "and its base, which is imported without --base");
  return config;
}

std::vector<LoraPart> lora_parts(const LoraOptions& lora, const BlockLayer& layer) {
  std::vector<LoraPart> parts{{"lora_A", "lora_A.weight", {lora.rank, layer.in}, {lora.rank, layer.in}, false},
                              {"lora_B", "lora_B.weight", {layer.out, lora.rank}, {layer.out, lora.rank}, true}};
  if (lora.dora) parts.push_back({"magnitude", "lora_magnitude_vector", {1, layer.out}, {layer.out}, true});
  return parts;
}

}  // namespace wmtp
