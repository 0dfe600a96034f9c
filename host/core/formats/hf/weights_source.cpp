#include "core/formats/hf/weights_source.hpp"

#include <algorithm>
#include <cstring>

#include "base/files.hpp"
#include "base/storage_error.hpp"
#include "core/formats/hf/hf_config.hpp"
#include "core/formats/hf/model_export.hpp"
#include "core/formats/hf/model_tensors.hpp"
#include "core/formats/hf/params_file.hpp"
#include "core/formats/hf/rope_json.hpp"
#include "core/formats/hf/tensor_stream.hpp"
#include "core/formats/safetensors/number_formats.hpp"
#include "core/model/model_limits.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

void check_heads(const fs::path& folder, const ModelConfig& model) {
  const ModelConfig theirs = read_hf_config(folder);
  if (theirs.heads == model.heads && theirs.kv_heads == model.kv_heads) return;
  throw Error(ExitStatus::data, (folder / hf_config_name).string() + ": " + std::to_string(theirs.heads) +
                                    " heads and " + std::to_string(theirs.kv_heads) + " kv_heads, [model] has " +
                                    std::to_string(model.heads) + " and " + std::to_string(model.kv_heads) +
                                    "; set them to the weights' own");
}

}  // namespace

bool is_hf_folder(const fs::path& folder) {
  return is_there(folder / hf_config_name) && !is_there(folder / params_file_name);
}

fs::path hf_files(const fs::path& folder) {
  const bool alone = !is_there(folder / "model.safetensors.index.json") && is_there(folder / hf_model_name);
  return alone ? folder / hf_model_name : folder;
}

bool follows_from_the_shape(const std::string& name) {
  return name == "rope.freqs" || name.ends_with(".rotary_emb.inv_freq");
}

bool are_copies(const TensorPlace& one, const TensorPlace& other) {
  const auto size = [](const TensorPlace& place) { return size_t(place.entry->end - place.entry->begin); };
  return one.entry->shape == other.entry->shape && one.entry->dtype == other.entry->dtype &&
         std::memcmp(one.bytes(), other.bytes(), size(one)) == 0;
}

ModelConfig read_hf_shape(const fs::path& folder) {
  ModelConfig model = read_hf_config(folder);
  if (!is_there(folder / heads_identity_name)) return model;
  ForeignKeys keys(folder / heads_identity_name);
  keys.integer("format_version", heads_format_version, heads_format_version);
  model.future_tokens = keys.integer("n_future_tokens", 1, max_future_tokens);
  model.layers += model.future_tokens - 1;
  keys.finish("export the model again");
  return model;
}

WeightsSource::WeightsSource(const fs::path& path, const ModelConfig& model) {
  const bool hf_folder = is_hf_folder(path);
  files_ = std::make_unique<SafetensorsFolder>(hf_folder ? hf_files(path) : path);
  if (hf_folder) check_heads(path, model);
  std::map<std::string, ModelTensor> known;
  if (hf_folder || files_->find("model.embed_tokens.weight"))
    for (ModelTensor& tensor : model_tensors(model))
      if (!tensor.hf_name.empty()) known.emplace(tensor.hf_name, std::move(tensor));
  for (const std::string& name : files_->names()) {
    if (follows_from_the_shape(name)) continue;
    const TensorPlace place = *files_->find(name);
    const auto found = known.find(name);
    const bool is_output = !known.empty() && name == hf_output_weight && found == known.end();
    if (is_output && files_->find("model.embed_tokens.weight") &&
        are_copies(place, *files_->find("model.embed_tokens.weight")))
      continue;  // a tied matrix that stands twice
    if (found != known.end())
      tensors_[found->second.name] = {place, found->second.rotary_heads};
    else
      tensors_[is_output ? output_weight : name] = {place, 0};
  }
  if (!hf_folder || !is_there(path / heads_identity_name)) return;
  heads_ = std::make_unique<SafetensorsFolder>(path / heads_tensors_name);
  for (const std::string& name : heads_->names()) tensors_[name] = {*heads_->find(name), 0};
}

std::optional<WeightsSource::Tensor> WeightsSource::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> WeightsSource::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

void WeightsSource::read(const Tensor& tensor, int64_t begin, int64_t count, float* out) {
  const TensorEntry& entry = *tensor.place.entry;
  if (!is_weight_dtype(entry.dtype))
    throw Error(ExitStatus::data, tensor.place.file->path().string() + ": tensor " + printable(entry.name) +
                                      ": dtype " + entry.dtype + "; weights are read as F32, BF16 or F16");
  const auto copy = [&](int64_t from, int64_t elements, float* to) {
    to_float(entry.dtype, tensor.place.bytes() + dtype_size(entry.dtype) * from, elements, to);
  };
  if (tensor.rotary_heads == 0) return copy(begin, count, out);
  const int64_t rows = entry.shape[0], columns = entry.shape.size() > 1 ? entry.shape[1] : 1;
  const int64_t head_rows = rows / tensor.rotary_heads;
  for (int64_t at = begin; at < begin + count;) {
    const int64_t row = at / columns, column = at % columns;
    const int64_t elements = std::min(columns - column, begin + count - at);
    const int64_t from = row / head_rows * head_rows + halves_row(row % head_rows, head_rows);
    copy(from * columns + column, elements, out + (at - begin));
    at += elements;
  }
}

std::vector<std::string> different_math(const fs::path& path, const ModelConfig& model) {
  ModelConfig theirs = model;
  if (is_hf_folder(path))
    theirs = read_hf_config(path);
  else if (is_there(path / params_file_name))
    theirs = read_params(path, SafetensorsFolder(path)).model;
  std::vector<std::string> told;
  const auto compare = [&](const char* key, const nlohmann::json& there, const nlohmann::json& here) {
    if (there != here) told.push_back(std::string(key) + " is " + there.dump() + " there and " + here.dump() + " here");
  };
  const auto scaling = [](const ModelConfig& m) {
    return m.rope_scaling ? rope_scaling_json(*m.rope_scaling) : nlohmann::json();
  };
  compare("rope_theta", theirs.rope_theta, model.rope_theta);
  compare("rope_scaling", scaling(theirs), scaling(model));
  compare("norm_eps", theirs.norm_eps, model.norm_eps);
  return told;
}

}  // namespace wmtp
