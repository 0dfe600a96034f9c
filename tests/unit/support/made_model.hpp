// A small model with random weights for the decoder's tests, and the logits of a full forward pass over a text.
#pragma once

#include <ATen/core/grad_mode.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "inference/cached_model.hpp"
#include "support/ranks.hpp"

namespace wmtp::test {

/// Widths that are no multiple of a vector, and two query heads per key head.
inline ModelConfig odd_shape(int64_t future_tokens) {
  ModelConfig config;
  config.dim = 24;
  config.layers = 2 + future_tokens;
  config.heads = 4;
  config.kv_heads = 2;
  config.ffn_dim = 37;
  config.vocab_size = 43;
  config.future_tokens = future_tokens;
  return config;
}

/// Large weights, so that logits differ by more than rounding. `rounds_matrices`: to bf16.
inline void fill_at_random(ShardedModel& model, uint64_t seed, bool rounds_matrices = false) {
  at::manual_seed(seed);
  std::map<std::string, at::Tensor> values;
  model.fill([&](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
    const auto [place, fresh] = values.try_emplace(spec.name);
    if (fresh) place->second = at::randn({spec.count()}) * 0.3 + (spec.shape.size() == 1 ? 1.0 : 0.0);
    if (fresh && rounds_matrices && spec.shape.size() == 2)
      place->second = place->second.to(at::kBFloat16).to(at::kFloat);
    std::copy_n(place->second.const_data_ptr<float>() + begin, count, out);
    return true;
  });
}

struct MadeModel {
  SingleRank rank;
  ModelConfig config;
  std::unique_ptr<ShardedModel> model;

  MadeModel(int64_t future_tokens, int64_t positions, uint64_t seed)
      : MadeModel(odd_shape(future_tokens), positions, seed) {}
  MadeModel(const ModelConfig& shape, int64_t positions, uint64_t seed) : config(shape) {
    ShardedModelRequest request;
    request.spec.model = &config;
    request.options.strategy = Strategy::no_shard;
    request.sequence_length = positions;
    model = std::make_unique<ShardedModel>(request, rank.channels);
    fill_at_random(*model, seed);
  }
  ShardedModel& operator*() { return *model; }
};

/// Logits of each head at each position, [S,V], computed by the training's blocks. Chained heads read the first token
/// past the end.
inline std::vector<at::Tensor> whole_forward(ShardedModel& model, const std::vector<int64_t>& ids) {
  const at::AutoGradMode grad(false);
  std::vector<std::unique_ptr<GatherScope>> weights;
  for (const auto& unit : model.units()) weights.push_back(std::make_unique<GatherScope>(*unit));
  const auto weight = [&](const char* name) { return model.weight(name).weight(); };
  const at::Tensor embedded = weight("tok_embeddings.weight").index_select(0, at::tensor(ids, at::kLong)).unsqueeze(0);
  at::Tensor h = embedded;
  for (int64_t i = 0; i < model.blocks().end; ++i) h = model.trunk_block(i).forward(h, model.rotary(), {});
  std::vector<at::Tensor> logits;
  for (int64_t k = 1; k <= model.num_heads(); ++k) {
    const bool is_chained = k > 1 && has_chained_heads(model.config());
    const at::Tensor token = is_chained ? at::cat({embedded.narrow(1, k - 1, embedded.size(1) - k + 1),
                                                   embedded.narrow(1, 0, 1).expand({1, k - 1, -1})},
                                                  1)
                                        : at::Tensor();
    const at::Tensor hidden = model.head_block(k).forward(h, model.rotary(), {}, token);
    if (has_chained_heads(model.config())) h = hidden;
    logits.push_back(at::linear(model.normed(hidden)[0], weight("output.weight")));
  }
  return logits;
}

inline std::vector<int64_t> random_ids(int64_t count, int64_t vocab_size, uint64_t seed) {
  at::manual_seed(seed);
  const at::Tensor ids = at::randint(vocab_size, {count}, at::kLong);
  return {ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + count};
}

}  // namespace wmtp::test
