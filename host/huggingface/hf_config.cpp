#include "huggingface/hf_config.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/embedded.hpp"
#include "base/files.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "huggingface/lora_options.hpp"
#include "huggingface/rope_json.hpp"
#include "model/model_limits.hpp"
#include "model/model_tensors.hpp"

namespace wmtp {
namespace {

/// Older files have rope_scaling, newer ones rope_parameters, our own both. As in transformers, a rope_scaling that is
/// not empty replaces rope_parameters.
void read_rope(ExternalJson& keys, double default_theta, ModelConfig& model) {
  const auto given = [&](const char* key) { return keys.has(key) && !keys.value(key).empty(); };
  const char* key = given("rope_scaling") ? "rope_scaling" : "rope_parameters";
  model.rope_theta = read_rope_theta(keys, key, default_theta);
  model.rope_scaling = read_rope_scaling(keys, key);
  if (!given("rope_scaling") || !given("rope_parameters")) return;
  const auto other_scaling = read_rope_scaling(keys, "rope_parameters");
  if (!model.rope_scaling && !other_scaling) return;
  const Json& other = keys.value("rope_parameters");
  const Json theta = other.is_object() ? other.value("rope_theta", Json()) : Json();
  if (other_scaling != model.rope_scaling || (!theta.is_null() && theta != model.rope_theta))
    keys.refuse("rope_parameters", "the same as in rope_scaling, with the rope_theta in it or beside it");
}

Json rope_parameters_json(const ModelConfig& model) {
  Json part =
      model.rope_scaling ? rope_scaling_json(*model.rope_scaling) : Json{{"rope_type", to_string(RopeType::none)}};
  part["rope_theta"] = model.rope_theta;
  return part;
}

/// An architecture of transformers that equals Llama except for its options.
struct Family {
  enum class Biases { none, qkv_only, by_key };  ///< by_key: attention_bias adds them to all four projections
  const char* name;
  const char* model_type;
  const char* architecture;
  Biases biases = Biases::by_key;
  bool qk_norm = false;
  bool olmo_norms = false;       ///< post_norm and joint_qk_norm
  bool multiplies = false;       ///< by the factors of multiplier_keys
  bool has_kv_default = false;   ///< num_key_value_heads may be missing: that of queries
  int64_t default_head_dim = 0;  ///< 0: hidden_size / num_attention_heads
  int64_t default_window = 0;    ///< sliding_window; 0: never applies
  int64_t default_interval = 0;  ///< no_rope_layer_interval; 0: all blocks have rotary positions
  double default_theta = 10000.0, default_eps = 1e-6;
  bool default_tie = false;
};
using Biases = Family::Biases;
constexpr Family families[] = {
    {.name = "Llama", .model_type = "llama", .architecture = "LlamaForCausalLM", .has_kv_default = true},
    {.name = "Qwen2", .model_type = "qwen2", .architecture = "Qwen2ForCausalLM", .biases = Biases::qkv_only},
    {.name = "Qwen3",
     .model_type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .qk_norm = true,
     .default_head_dim = 128},
    {.name = "Mistral",
     .model_type = "mistral",
     .architecture = "MistralForCausalLM",
     .biases = Biases::none,
     .default_window = 4096},
    {.name = "SmolLM3",
     .model_type = "smollm3",
     .architecture = "SmolLM3ForCausalLM",
     .default_interval = 4,
     .default_theta = 2e6,
     .default_tie = true},
    {.name = "OLMo2",
     .model_type = "olmo2",
     .architecture = "Olmo2ForCausalLM",
     .olmo_norms = true,
     .has_kv_default = true,
     .default_eps = 1e-5},
    {.name = "Granite",
     .model_type = "granite",
     .architecture = "GraniteForCausalLM",
     .multiplies = true,
     .has_kv_default = true}};

/// Granite's names of its factors, which are ours. transformers' defaults are 1, also for attention_multiplier.
constexpr std::pair<const char*, double ModelConfig::*> multiplier_keys[] = {
    {"embedding_multiplier", &ModelConfig::embedding_multiplier},
    {"attention_multiplier", &ModelConfig::attention_multiplier},
    {"residual_multiplier", &ModelConfig::residual_multiplier},
    {"logits_scaling", &ModelConfig::logits_scaling}};

bool has_multipliers(const ModelConfig& model) {
  return std::any_of(std::begin(multiplier_keys), std::end(multiplier_keys),
                     [&](const auto& one) { return model.*one.second > 0; });
}

bool has_biases(const Family& family, const ModelConfig& model) {
  if (family.biases == Biases::by_key) return model.qkv_bias == model.o_bias;
  return model.qkv_bias == (family.biases == Biases::qkv_only) && !model.o_bias;
}

const Family& find_family(ExternalJson& keys) {
  std::string known;
  for (const Family& family : families) {
    if (keys.has("model_type") && keys.value("model_type") == family.model_type) return family;
    known += (known.empty() ? "\"" : ", \"") + std::string(family.model_type) + "\"";
  }
  keys.refuse("model_type", "one of " + known);
  return families[0];
}

/// The first one with these options. Error(usage) if no architecture combines them.
const Family& find_family(const ModelConfig& model) {
  for (const Family& family : families)
    if (has_biases(family, model) && family.qk_norm == model.qk_norm && family.olmo_norms == model.post_norm &&
        family.olmo_norms == model.joint_qk_norm && family.multiplies == has_multipliers(model) &&
        (family.default_window > 0) == (model.sliding_window > 0) &&
        (family.default_interval > 0) == (model.no_rope_layer_interval > 0))
      return family;
  throw Error(ExitStatus::usage,
              "no architecture of Hugging Face has this combination of qkv_bias, o_bias, qk_norm, joint_qk_norm, "
              "post_norm, sliding_window, no_rope_layer_interval and multipliers; export the model in Meta's format");
}

void check_architecture(ExternalJson& keys, const Family& family) {
  keys.only("architectures", {Json::array({family.architecture})});
  keys.only("hidden_act", {"silu", "swish"});
  if (family.biases != Biases::by_key) keys.only("attention_bias", {false});
  for (const char* key : {"mlp_bias", "use_sliding_window"}) keys.only(key, {false});
  keys.only("partial_rotary_factor", {1.0});
  keys.only("is_causal", {true});
  for (const char* key : {"quantization_config", "num_local_experts"}) keys.only(key, {});
  // Unless use_sliding_window is true.
  const bool ignores_window = family.biases == Biases::qkv_only || family.qk_norm || family.default_interval > 0;
  if (!ignores_window && family.default_window == 0) keys.only("sliding_window", {});
}

/// Whether layer_types names the type of all blocks. Records a mistake for a list of several types.
bool has_layer_type(ExternalJson& keys, int64_t layers, const char* wanted, const char* other) {
  if (!keys.has("layer_types")) return false;
  const Json& found = keys.value("layer_types");
  const auto is_list_of = [&](const char* type) { return found == Json(size_t(layers), type); };
  if (is_list_of(wanted)) return true;
  if (*other == 0 || !is_list_of(other))
    keys.refuse("layer_types", std::string("a list of \"") + wanted + "\"" +
                                   (*other == 0 ? "" : std::string(" or of \"") + other + "\"") + " for each block");
  return false;
}

/// From the list of blocks with (1) and without (0) rotary positions, which transformers prefers, or from the interval.
void read_interval(ExternalJson& keys, const Family& family, ModelConfig& model) {
  if (family.default_interval == 0) return;
  const int64_t given = keys.integer("no_rope_layer_interval", 1, max_layers, family.default_interval);
  const auto list_of = [&](int64_t interval) {
    Json list = Json::array();
    for (int64_t i = 1; i <= model.layers; ++i) list.push_back(interval == 0 || i % interval != 0 ? 1 : 0);
    return list;
  };
  if (!keys.has("no_rope_layers")) {
    model.no_rope_layer_interval = given <= model.layers ? given : 0;
    return;
  }
  const Json& list = keys.value("no_rope_layers");
  const auto first = list.is_array() ? std::find(list.begin(), list.end(), 0) : list.end();
  const int64_t interval = first == list.end() ? 0 : first - list.begin() + 1;
  if (list != list_of(interval))
    keys.refuse("no_rope_layers", "a list with a number for each block: 0 for every n-th, else 1");
  model.no_rope_layer_interval = interval;
}

/// A null sliding_window means none, a missing one the default; layer_types may say that no block has one.
void read_window(ExternalJson& keys, const Family& family, ModelConfig& model) {
  const bool stated = keys.all().contains("sliding_window");
  model.sliding_window = stated ? keys.integer("sliding_window", 1, max_positions, 0) : family.default_window;
  if (has_layer_type(keys, model.layers, "full_attention", "sliding_attention"))
    model.sliding_window = 0;
  else if (keys.has("layer_types") && model.sliding_window == 0)
    keys.refuse("sliding_window", "a number, because of layer_types");
}

/// Keeps head_dim only if it is not the quotient.
void read_attention(ExternalJson& keys, const Family& family, ModelConfig& model) {
  model.o_bias = family.biases == Biases::by_key && keys.flag("attention_bias", false);
  model.qkv_bias = family.biases == Biases::qkv_only || model.o_bias;
  if (family.default_window > 0)
    read_window(keys, family, model);
  else
    has_layer_type(keys, model.layers, "full_attention", "");
  model.head_dim = keys.integer("head_dim", 2, max_dim, family.default_head_dim);
  if (model.head_dim * model.heads == model.dim) model.head_dim = 0;
}

}  // namespace

bool is_hf_folder(const std::filesystem::path& folder) {
  if (!is_there(folder / hf_config_name)) return false;
  return !is_there(folder / params_file_name) ||
         SafetensorsFolder(hf_files(folder)).find(hf_embedding_weight).has_value();
}

bool is_params_folder(const std::filesystem::path& folder) {
  return is_there(folder / params_file_name) && !is_hf_folder(folder);
}

std::filesystem::path hf_files(const std::filesystem::path& folder) {
  return is_there(folder / hf_model_name) ? folder / hf_model_name : folder;
}

void check_no_adapter_beside(const std::filesystem::path& folder) {
  const bool is_hf = is_there(folder / hf_config_name);
  if (!is_there(folder / peft_config_name) || (!is_hf && !is_there(folder / params_file_name))) return;
  throw Error(
      ExitStatus::data,
      folder.string() + " contains both " + (is_hf ? hf_config_name : params_file_name) + ", of a model, and " +
          peft_config_name + ", of a PEFT adapter, which is not applied to the model beside it: move " +
          peft_config_name + " and " + peft_tensors_name + " to a folder ADAPTER; then `wmtp-host checkpoint import " +
          shell_path(folder.string()) +
          " -o MODEL` and `wmtp-host checkpoint import ADAPTER --base MODEL -o IMPORTED` give [model] and "
          "[adapter] weights, and `wmtp-host checkpoint merge IMPORTED --base MODEL -o MERGED` one model of both");
}

std::string hf_families() {
  std::vector<std::string> names;
  for (const Family& family : families) names.emplace_back(family.name);
  return join_names(names);
}

ModelConfig read_hf_config(const std::filesystem::path& folder) {
  ExternalJson keys(folder / hf_config_name);
  const Family& family = find_family(keys);
  check_architecture(keys, family);
  ModelConfig model;
  model.future_tokens = 1;
  model.dim = keys.integer("hidden_size", 2, max_dim);
  model.layers = keys.integer("num_hidden_layers", 1, max_layers);
  model.heads = keys.integer("num_attention_heads", 1, max_heads);
  model.qk_norm = family.qk_norm;
  model.post_norm = model.joint_qk_norm = family.olmo_norms;
  read_attention(keys, family, model);
  const auto fallback = family.has_kv_default ? std::optional(model.heads) : std::nullopt;
  read_interval(keys, family, model);
  model.kv_heads = keys.integer("num_key_value_heads", 1, max_heads, fallback);
  model.tie_word_embeddings = keys.flag("tie_word_embeddings", family.default_tie);
  model.ffn_dim = keys.integer("intermediate_size", 1, max_ffn_dim);
  model.vocab_size = keys.integer("vocab_size", 2, max_vocabulary);
  model.max_sequence_length = keys.integer("max_position_embeddings", 2, max_positions, 2048);
  model.norm_eps = keys.positive("rms_norm_eps", family.default_eps);
  read_rope(keys, family.default_theta, model);
  if (family.multiplies)
    for (const auto& [key, member] : multiplier_keys) model.*member = keys.positive(key, 1.0);
  for (const std::string& mistake : head_mistakes(model)) keys.refuse("num_attention_heads", mistake);
  keys.finish("only " + hf_families() + " models are imported");
  return model;
}

SavedShape read_hf_shape(const std::filesystem::path& folder) {
  SavedShape saved;
  saved.model = read_hf_config(folder);
  saved.has_max_sequence_length = ExternalJson(folder / hf_config_name).has("max_position_embeddings");
  if (!is_there(folder / heads_identity_name)) return saved;
  ExternalJson keys(folder / heads_identity_name);
  keys.integer("format_version", heads_format_version, heads_format_version);
  read_heads(keys, std::nullopt, saved.model);
  saved.model.layers += saved.model.future_tokens - 1;
  saved.value_heads = read_value_heads(keys);
  keys.finish("export the model again");
  return saved;
}

std::vector<std::string> dropout_differences(const std::filesystem::path& folder) {
  std::vector<std::string> differences;
  const ExternalJson keys(folder / hf_config_name);
  for (const auto& [key, value] : keys.all().items()) {
    const bool is_dropout = key.find("dropout") != key.npos || key.ends_with("_pdrop") || key.ends_with("layerdrop");
    const bool is_of_other_heads = key.starts_with("classifier") || key.starts_with("summary");
    const bool is_off = value.is_null() || value == 0 || value == false;
    if (is_dropout && !is_of_other_heads && !is_off)
      differences.push_back(key + " " + keys.found(key) +
                            " there and 0 here: nothing is dropped from this model's activations");
  }
  return differences;
}

std::vector<std::string> code_differences(const std::filesystem::path& folder) {
  ExternalJson keys(folder / hf_config_name);
  if (!keys.has("auto_map") || !keys.value("auto_map").is_object()) return {};
  std::set<std::string> files;
  for (const auto& [key, value] : keys.value("auto_map").items()) {
    if (!key.starts_with("AutoModel") || !value.is_string()) continue;
    std::string code = value.get<std::string>();  // "modeling_x.Class", or "OWNER/NAME--modeling_x.Class"
    if (const size_t end = code.find("--"); end != code.npos) code.erase(0, end + 2);
    const std::string file = code.substr(0, code.rfind('.')) + ".py";
    if (!embedded_modeling().contains(file)) files.insert(printable(file));
  }
  if (files.empty()) return {};
  return {"auto_map names " + join_names({files.begin(), files.end()}) +
          (files.size() == 1 ? ", which is" : ", which are") + " not read: computed as a plain " +
          find_family(keys).name};
}

std::vector<std::string> training_differences(const std::filesystem::path& folder) {
  std::vector<std::string> differences = dropout_differences(folder);
  std::ranges::move(code_differences(folder), std::back_inserter(differences));
  return differences;
}

Json hf_config_json(const ModelConfig& model, const std::string& dtype) {
  const char* name = dtype == "BF16" ? "bfloat16" : "float32";
  const Family& family = find_family(model);
  Json config{{"architectures", {family.architecture}},
              {"attention_bias", model.o_bias},
              {"attention_dropout", 0.0},
              {"bos_token_id", nullptr},
              {"dtype", name},
              {"eos_token_id", nullptr},
              {"head_dim", head_dim(model)},
              {"hidden_act", "silu"},
              {"hidden_size", model.dim},
              {"intermediate_size", model.ffn_dim},
              {"max_position_embeddings", model.max_sequence_length},
              {"mlp_bias", false},
              {"model_type", family.model_type},
              {"num_attention_heads", model.heads},
              {"num_hidden_layers", num_trunk_blocks(model) + 1},
              {"num_key_value_heads", model.kv_heads},
              {"rms_norm_eps", model.norm_eps},
              {"rope_parameters", rope_parameters_json(model)},
              {"rope_scaling", model.rope_scaling ? rope_scaling_json(*model.rope_scaling) : Json()},
              {"rope_theta", model.rope_theta},
              {"tie_word_embeddings", model.tie_word_embeddings},
              {"torch_dtype", name},
              {"vocab_size", model.vocab_size}};
  if (model.sliding_window > 0) config["sliding_window"] = model.sliding_window;
  if (family.biases == Biases::qkv_only || model.qk_norm || model.no_rope_layer_interval > 0)
    config["use_sliding_window"] = false;
  if (model.no_rope_layer_interval > 0) {
    config["no_rope_layer_interval"] = model.no_rope_layer_interval;
    config["no_rope_layers"] = Json::array();
    for (const std::string& block : block_names(model))
      if (block.starts_with("layers.")) config["no_rope_layers"].push_back(has_rotation(model, block) ? 1 : 0);
  }
  if (family.multiplies) {
    for (const auto& [key, member] : multiplier_keys) config[key] = model.*member > 0 ? model.*member : 1.0;
    if (model.attention_multiplier == 0) config["attention_multiplier"] = 1 / std::sqrt(double(head_dim(model)));
  }
  if (family.default_interval > 0 || family.olmo_norms)  // their defaults are ids of their authors' vocabularies
    config["pad_token_id"] = nullptr;
  if (family.biases != Biases::by_key)  // Qwen2 and Mistral do not have these keys
    for (const char* key : {"attention_bias", "mlp_bias"}) config.erase(key);
  return config;
}

}  // namespace wmtp
