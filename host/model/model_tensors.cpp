#include "model/model_tensors.hpp"

#include <functional>
#include <numeric>

namespace wmtp {
namespace {

using Kind = ModelTensor::Kind;

void add_block(const std::string& block, int64_t head, const ModelConfig& model, std::vector<ModelTensor>& all) {
  const bool in_hf = head <= 1;
  for (const BlockLayer& layer : block_layers(model, block)) {
    const auto add = [&](const char* suffix, std::vector<int64_t> shape, Kind kind, ParameterCut cut) {
      all.push_back({block + "." + std::string(layer.name) + suffix,
                     in_hf ? "model." + block + "." + std::string(layer.hf_name) + suffix : "", std::move(shape), kind,
                     head, layer.rotary_heads, layer.writes_residual(), cut});
    };
    if (layer.is_linear())
      add(".weight", {layer.out, layer.in}, Kind::linear, layer.cut());
    else
      add(".weight", {layer.out}, Kind::norm, ParameterCut::none);
    const bool cuts_bias = layer.cut() == ParameterCut::rows;  // by columns: it is added to the whole sum
    if (layer.has_bias) add(".bias", {layer.out}, Kind::bias, cuts_bias ? layer.cut() : ParameterCut::none);
  }
}

}  // namespace

std::string unit_of(std::string_view tensor) {
  const size_t end = tensor.find('.');
  return std::string(tensor.substr(0, is_in_block(tensor) ? tensor.find('.', end + 1) : end));
}

std::string ModelTensor::unit() const { return unit_of(name); }

bool ModelTensor::may_be_zero() const {
  return kind == Kind::bias || writes_residual || name == output_weight || name.ends_with(".wq.weight");
}

std::vector<ModelTensor> model_tensors(const ModelConfig& model) {
  const std::vector<int64_t> matrix{model.vocab_size, model.dim};
  std::vector<ModelTensor> all{{.name = embedding_weight,
                                .hf_name = hf_embedding_weight,
                                .shape = matrix,
                                .kind = Kind::embedding,
                                .cut = ParameterCut::rows}};
  for (int64_t i = 0; i < num_trunk_blocks(model); ++i) add_block(trunk_block_name(i), 0, model, all);
  for (int64_t k = 1; k <= num_head_blocks(model, model.future_tokens); ++k)
    add_block(head_block_name(model, k), k, model, all);
  all.push_back({"norm.weight", "model.norm.weight", {model.dim}, Kind::norm});
  if (!model.tie_word_embeddings)
    all.push_back({.name = output_weight,
                   .hf_name = hf_output_weight,
                   .shape = matrix,
                   .kind = Kind::embedding,
                   .head = 1,
                   .cut = ParameterCut::rows});
  return all;
}

int64_t num_parameters(const ModelConfig& model) {
  int64_t count = 0;
  for (const ModelTensor& tensor : model_tensors(model))
    count += std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
  return count;
}

std::string trunk_block_name(int64_t block) { return "layers." + std::to_string(block); }

std::string head_block_name(const ModelConfig& model, int64_t head) {
  if (head == 1) return trunk_block_name(num_trunk_blocks(model));
  return "extra_heads." + std::to_string(num_head_blocks(model, head) - 2);
}

bool is_in_block(std::string_view name) { return name.starts_with("layers.") || name.starts_with("extra_heads."); }

std::vector<std::string> block_names(const ModelConfig& model) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < num_trunk_blocks(model); ++i) names.push_back(trunk_block_name(i));
  for (int64_t k = 1; k <= num_head_blocks(model, model.future_tokens); ++k) names.push_back(head_block_name(model, k));
  return names;
}

bool is_derived_buffer(const std::string& name) {
  return name == "rope.freqs" || name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace wmtp
