#include "huggingface/initial_weights.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/safetensors/number_formats.hpp"
#include "checkpoint/tensor_check.hpp"
#include "experiment/model_config.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/params_file.hpp"
#include "huggingface/rope_json.hpp"
#include "huggingface/tensor_stream.hpp"
#include "model/model_tensors.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view extra_heads = "extra_heads.";

std::string blocks(int64_t count) { return counted(count, "block"); }

/// What no tensor reveals, but gives the same tensors another meaning: with other numbers of heads the projections, and
/// without token heads, in a model with a shorter trunk, the trunk's last block would pass for that of head 1.
void check_stated_shape(const ShapeStatement& statement, const ModelConfig& stated, const ModelConfig& model,
                        int64_t token_heads) {
  const auto refuse = [&](const std::string& reason) {
    const char* name = statement.is_hf ? hf_config_name : params_file_name;
    throw Error(ExitStatus::data, (statement.folder / name).string() + ": " + reason);
  };
  if (stated.heads != model.heads || stated.kv_heads != model.kv_heads)
    refuse(std::to_string(stated.heads) + " heads and " + std::to_string(stated.kv_heads) + " kv_heads, [model] has " +
           std::to_string(model.heads) + " and " + std::to_string(model.kv_heads) + "; set them to the weights' own");
  const int64_t trunk = num_trunk_blocks(stated);
  if (token_heads == 0 && num_trunk_blocks(model) < trunk)
    refuse("its trunk has " + blocks(trunk) + ", but layers = " + std::to_string(model.layers) +
           " less future_tokens = " + std::to_string(model.future_tokens) + " leaves " +
           blocks(num_trunk_blocks(model)) + "; set layers to " + std::to_string(trunk + model.future_tokens) +
           ", or remove it");
}

bool is_in_first_head(const std::string& name, const ModelConfig& model) {
  return name.starts_with(head_block_name(model, 1) + ".");
}

/// The head of a tensor "extra_heads.N.…".
int64_t extra_head(const std::string& name) { return 2 + std::strtoll(name.c_str() + extra_heads.size(), nullptr, 10); }

/// A reference may use only its first heads, a value model uses none.
bool is_in_unused_head(const std::string& name, const ModelConfig& model, int64_t token_heads) {
  if (is_of_value_head(name)) return true;
  if (name.starts_with(extra_heads))
    return token_heads <= 1 || (token_heads < model.future_tokens && extra_head(name) > token_heads);
  return token_heads == 0 && (name == output_weight || is_in_first_head(name, model));
}

/// What a statement leaves open is taken from the weights, of which the folder of a file may have others, too.
SavedShape read_statement(const ShapeStatement& statement, const fs::path& weights) {
  return statement.is_hf ? read_hf_shape(statement.folder) : read_params(statement.folder, SafetensorsFolder(weights));
}

bool has_value_heads(const fs::path& weights) {
  const auto statement = shape_statement(weights);
  return statement && !statement->is_hf && !read_statement(*statement, weights).value_heads.empty();
}

bool has_hf_names(const fs::path& file) {
  return std::ranges::any_of(SafetensorsFolder(file).names(),
                             [](const std::string& name) { return name.starts_with("model."); });
}

std::string advice_for_missing(const std::string& name, const fs::path& weights, int64_t token_heads) {
  if (is_chain_tensor(name))
    return "; chained heads that the weights lack are made with [model] new_heads = \"copy\" or \"new\"; parallel "
           "heads need [model] future_heads = \"parallel\"";
  if (name.starts_with(extra_heads))
    return "; heads that the weights lack are made with [model] new_heads = \"copy\" or \"new\"";
  if (token_heads > 0 && has_value_heads(weights)) return "; a critic's model predicts no tokens: it goes into [value]";
  return name == output_weight ? "; where embeddings are tied set [model] tie_word_embeddings = true" : "";
}

}  // namespace

InitialWeights::InitialWeights(fs::path weights, const ModelConfig& model, int64_t token_heads)
    : weights_(std::move(weights)), model_(model), token_heads_(token_heads) {
  check_no_adapter_beside(weights_);
  const bool hf_folder = is_hf_folder(weights_);
  files_ = std::make_unique<SafetensorsFolder>(hf_folder ? hf_files(weights_) : weights_);
  const std::optional<ModelConfig> stated = stated_shape(weights_);
  states_shape_ = stated.has_value();
  if (stated) check_stated_shape(*shape_statement(weights_), *stated, model, token_heads);
  const auto embedding = files_->find(hf_embedding_weight);
  std::map<std::string, ModelTensor> known;
  if (hf_folder || embedding)
    for (ModelTensor& tensor : model_tensors(model))
      if (!tensor.hf_name.empty()) known.emplace(tensor.hf_name, std::move(tensor));
  for (const std::string& name : files_->names()) {
    if (is_derived_buffer(name)) continue;
    const StoredTensor place = *files_->find(name);
    const auto found = known.find(name);
    const bool is_tied_output = !known.empty() && name == hf_output_weight && found == known.end();
    if (is_tied_output && embedding && equal_bytes(place, *embedding)) continue;
    if (found != known.end())
      tensors_[found->second.name] = {place, found->second.rotary_heads};
    else
      tensors_[is_tied_output ? output_weight : name] = {place, 0};
  }
  if (!hf_folder || !is_there(weights_ / heads_identity_name)) return;
  heads_ = std::make_unique<SafetensorsFolder>(weights_ / heads_tensors_name);
  for (const std::string& name : heads_->names()) tensors_[name] = {*heads_->find(name), 0};
}

std::optional<InitialWeights::Tensor> InitialWeights::lookup(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? std::nullopt : std::optional(found->second);
}

/// False for the tensors of a parallel head in a model whose heads are chained.
bool InitialWeights::fits_chain(const std::string& name) const {
  if (!has_chained_heads(model_) || !name.starts_with(extra_heads)) return true;
  const std::string head = name.substr(0, name.find('.', extra_heads.size()));
  return tensors_.contains(head + ".eh_proj.weight");
}

std::optional<InitialWeights::Tensor> InitialWeights::find(const std::string& name, const std::vector<int64_t>& shape,
                                                           bool may_initialize) const {
  auto tensor = model_.new_heads.empty() || fits_chain(name) ? lookup(name) : std::nullopt;
  if (!tensor && name.starts_with(extra_heads)) {
    // The last block, which is copied, has no layers of a chain.
    if (model_.new_heads == "new" || (model_.new_heads == "copy" && is_chain_tensor(name))) return std::nullopt;
    if (model_.new_heads == "copy")
      tensor = lookup(head_block_name(model_, 1) + name.substr(name.find('.', extra_heads.size())));
  }
  if (!tensor) {
    if (may_initialize) return std::nullopt;
    throw Error(ExitStatus::data, weights_.string() + ": tensor '" + name + "' is missing; the model needs " +
                                      shape_text(shape) + advice_for_missing(name, weights_, token_heads_));
  }
  const TensorEntry& entry = *tensor->place.entry;
  if (entry.shape != shape)
    throw Error(ExitStatus::data, tensor->place.file->path().string() + ": tensor '" + entry.name + "' has shape " +
                                      shape_text(entry.shape) + ", the model has " + shape_text(shape));
  return tensor;
}

void InitialWeights::check_names(const std::set<std::string>& known) const {
  // Without an output matrix there is no token head, and the last block is the trunk's.
  const bool may_have_head = states_shape_ || model_.tie_word_embeddings || tensors_.contains(output_weight);
  const auto is_unused = [&](const std::string& name) {
    return is_in_unused_head(name, model_, token_heads_) && (may_have_head || !is_in_first_head(name, model_));
  };
  const auto advice = [&](const std::string& name) -> std::string {
    if (has_shared_heads(model_) && name.starts_with(extra_heads))
      return "; there each head has a block, here future_heads = \"shared\" is one for all: set it to \"chained\"";
    return std::string("; check [model] ") + config_keys_for_tensor(name);
  };
  for (const auto& [name, tensor] : tensors_)
    if (!known.contains(name) && !is_unused(name))
      throw Error(ExitStatus::data,
                  weights_.string() + ": tensor '" + name + "' is not part of the model" + advice(name));
}

void InitialWeights::Tensor::read(int64_t begin, int64_t count, float* out) const {
  const TensorEntry& entry = *place.entry;
  if (!is_weight_dtype(entry.dtype))
    throw Error(ExitStatus::data, place.file->path().string() + ": tensor " + printable(entry.name) + ": dtype " +
                                      entry.dtype + "; weights are read as F32, BF16 or F16");
  if (rotary_heads == 0) return place.read(begin, count, out);
  const int64_t rows = entry.shape[0], columns = entry.shape.size() > 1 ? entry.shape[1] : 1;
  const int64_t head_rows = rows / rotary_heads;
  for (int64_t at = begin; at < begin + count;) {
    const int64_t row = at / columns, column = at % columns;
    const int64_t elements = std::min(columns - column, begin + count - at);
    const int64_t from = row / head_rows * head_rows + halves_row(row % head_rows, head_rows);
    place.read(from * columns + column, elements, out + (at - begin));
    at += elements;
  }
}

void check_initial_weights(const fs::path& weights, const ModelConfig& model, int64_t token_heads) {
  const InitialWeights source(weights, model, token_heads);
  std::set<std::string> known;
  std::vector<StoredTensor> not_zero;
  for (const ModelTensor& tensor : model_tensors(model)) {
    if (is_in_unused_head(tensor.name, model, token_heads)) continue;
    const auto found = source.find(tensor.name, tensor.shape, /*may_initialize=*/false);
    if (found && !tensor.may_be_zero()) not_zero.push_back(found->place);
    known.insert(tensor.name);
  }
  source.check_names(known);
  for (const StoredTensor& place : not_zero) place.check_not_zero();
}

std::optional<ShapeStatement> shape_statement(const fs::path& weights) {
  const bool is_folder = fs::is_directory(weights);
  const fs::path folder = is_folder ? weights : weights.parent_path();
  const bool has_config = is_there(folder / hf_config_name), has_params = is_there(folder / params_file_name);
  if (!has_config && !has_params) return std::nullopt;
  if (is_folder) return ShapeStatement{folder, is_hf_folder(folder)};
  return ShapeStatement{folder, has_config && (!has_params || has_hf_names(weights))};
}

std::optional<ModelConfig> stated_shape(const fs::path& weights) {
  return shape_statement(weights) ? std::optional(read_model_config(weights, {})) : std::nullopt;
}

std::optional<int64_t> stated_sequence_length(const fs::path& weights) {
  const auto statement = shape_statement(weights);
  if (!statement) return std::nullopt;
  const SavedShape saved = read_statement(*statement, weights);
  return saved.has_max_sequence_length ? std::optional(saved.model.max_sequence_length) : std::nullopt;
}

StoredHeads stored_heads(const fs::path& weights) {
  const auto stated = stated_shape(weights);
  if (stated && fs::is_directory(weights)) return {stated->future_tokens, stated->future_heads, stated->future_offsets};
  StoredHeads stored;  // other files of the folder may have more heads
  if (stated) stored.offsets = stated->future_offsets;
  for (const std::string& name : SafetensorsFolder(weights).names()) {
    if (!name.starts_with(extra_heads)) continue;
    stored.count = std::max(stored.count, extra_head(name));
    if (is_chain_tensor(name)) stored.kind = FutureHeads::chained;
  }
  return stored;
}

ModelConfig read_model_config(const fs::path& weights, const ModelConfig& like) {
  ModelConfig config = like;
  if (const auto statement = shape_statement(weights)) {
    const SavedShape saved = read_statement(*statement, weights);
    config = saved.model;
    if (config.vocab_size == 0) config.vocab_size = like.vocab_size;
    if (config.ffn_dim == 0) config.ffn_dim = like.ffn_dim;
    if (config.max_sequence_length == 0) config.max_sequence_length = like.max_sequence_length;
  }
  config.weights = like.weights;
  config.experiment = like.experiment;
  return config;
}

std::string offsets_difference(const fs::path& path, const ModelConfig& model) {
  const ModelConfig found = read_model_config(path, model);
  const int64_t heads = std::min(found.future_tokens, model.future_tokens);
  const std::string there = offsets_text(found.future_offsets, heads), here = offsets_text(model.future_offsets, heads);
  return there == here ? "" : "future_offsets is " + there + " there and " + here + " here";
}

std::vector<std::string> math_differences(const fs::path& path, const ModelConfig& model) {
  const ModelConfig found = read_model_config(path, model);
  std::vector<std::string> differences;
  const auto compare = [&](const char* key, const Json& there, const Json& here) {
    if (there != here)
      differences.push_back(std::string(key) + " is " + there.dump() + " there and " + here.dump() + " here");
  };
  const auto scaling = [](const ModelConfig& m) {
    return m.rope_scaling ? rope_scaling_json(*m.rope_scaling) : Json();
  };
  compare("rope_theta", found.rope_theta, model.rope_theta);
  compare("rope_scaling", scaling(found), scaling(model));
  compare("norm_eps", found.norm_eps, model.norm_eps);
  for (const ShapeOption& option : shape_options)
    std::visit([&](auto member) { compare(option.name, found.*member, model.*member); }, option.member);
  return differences;
}

}  // namespace wmtp
