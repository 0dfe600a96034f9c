#include "core/formats/hf/first_weights.hpp"

#include "base/error.hpp"
#include "core/formats/hf/model_tensors.hpp"
#include "core/formats/hf/params_file.hpp"

namespace wmtp {
namespace {

constexpr std::string_view extra_heads = "extra_heads.";

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

std::string block_of_head_1(const ModelConfig& model) {
  return "layers." + std::to_string(num_trunk_blocks(model)) + ".";
}

/// Whether a tensor is of a head that this model does without: a reference has one head, a value model none.
bool is_of_another_head(const std::string& name, const ModelConfig& model, int64_t token_heads) {
  if (name.starts_with("value_heads.")) return true;
  if (name.starts_with(extra_heads)) return token_heads <= 1;
  return token_heads == 0 && (name == output_weight || name.starts_with(block_of_head_1(model)));
}

bool holds_value_heads(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / params_file_name) &&
         !read_params(folder, SafetensorsFolder(folder)).value_heads.empty();
}

/// What to do about a tensor that is missing.
std::string advice_for(const std::string& name, const std::filesystem::path& weights, int64_t token_heads) {
  if (name == output_weight && token_heads > 0 && holds_value_heads(weights))
    return "; a critic's model predicts no tokens: it goes into [value]";
  if (name == output_weight) return "; where embeddings are tied set [model] tie_word_embeddings = true";
  if (name.starts_with(extra_heads))
    return "; heads that the weights lack are made with [model] new_heads = \"copy\" or \"new\"";
  if (holds_value_heads(weights) && token_heads > 0)
    return "; a critic's model predicts no tokens: it goes into [value]";
  return "";
}

/// What of the shape says whether a tensor is there.
const char* key_behind(const std::string& name) {
  if (name == output_weight) return "tie_word_embeddings";
  return name.ends_with(".bias") ? "qkv_bias" : "layers and future_tokens";
}

}  // namespace

FirstWeights::FirstWeights(std::filesystem::path weights, const ModelConfig& model, int64_t token_heads)
    : weights_(std::move(weights)), model_(model), token_heads_(token_heads), source_(weights_, model) {}

std::optional<WeightsSource::Tensor> FirstWeights::find(const std::string& name, const std::vector<int64_t>& shape,
                                                        bool own_start) const {
  auto tensor = source_.find(name);
  if (!tensor && name.starts_with(extra_heads)) {
    if (model_.new_heads == "new") return std::nullopt;
    if (model_.new_heads == "copy")
      tensor = source_.find(block_of_head_1(model_) + name.substr(name.find('.', extra_heads.size()) + 1));
  }
  if (!tensor) {
    if (own_start) return std::nullopt;
    throw Error(ExitStatus::data, weights_.string() + ": tensor '" + name + "' is missing; the model needs " +
                                      shape_text(shape) + advice_for(name, weights_, token_heads_));
  }
  const TensorEntry& entry = *tensor->place.entry;
  if (entry.shape != shape)
    throw Error(ExitStatus::data, tensor->place.file->path().string() + ": tensor '" + entry.name + "' has shape " +
                                      shape_text(entry.shape) + ", the model has " + shape_text(shape));
  return tensor;
}

void FirstWeights::check_names(const std::set<std::string>& known) const {
  for (const std::string& name : source_.names())
    if (known.count(name) == 0 && !is_of_another_head(name, model_, token_heads_))
      throw Error(ExitStatus::data, weights_.string() + ": tensor '" + name +
                                        "' has no place in the model; check [model] " + key_behind(name));
}

void check_first_weights(const std::filesystem::path& weights, const ModelConfig& model, int64_t token_heads) {
  const FirstWeights source(weights, model, token_heads);
  std::set<std::string> known;
  for (const ModelTensor& tensor : model_tensors(model)) {
    if (is_of_another_head(tensor.name, model, token_heads)) continue;
    source.find(tensor.name, tensor.shape, /*own_start=*/false);
    known.insert(tensor.name);
  }
  source.check_names(known);
}

ModelConfig model_config_of(const std::filesystem::path& folder, const ModelConfig& like) {
  if (is_hf_folder(folder)) {
    ModelConfig config = read_hf_shape(folder);
    config.weights = like.weights;
    config.experiment = like.experiment;
    return config;
  }
  if (!std::filesystem::exists(folder / params_file_name)) return like;
  const SavedShape saved = read_params(folder, SafetensorsFolder(folder));
  ModelConfig config = saved.model;
  if (config.vocab_size == 0) config.vocab_size = like.vocab_size;
  if (config.ffn_dim == 0) config.ffn_dim = like.ffn_dim;
  if (!saved.has_max_sequence_length) config.max_sequence_length = like.max_sequence_length;
  config.weights = like.weights;
  config.experiment = like.experiment;
  return config;
}

}  // namespace wmtp
