#include "step/frozen_cache.hpp"

#include <ATen/core/grad_mode.h>

#include "memory/allocator.hpp"

namespace wmtp {

using at::Tensor;

FrozenModel::FrozenModel(std::unique_ptr<ShardedModel> model, int64_t chunk_tokens) : model_(std::move(model)) {
  if (model_->num_heads() > 0)
    loss_ = std::make_unique<LinearCrossEntropy>(model_->weight("output.weight"), chunk_tokens, model_->vocabulary());
}

std::map<std::string, Tensor> FrozenModel::signals(const MicroBatch& micro, const std::set<std::string>& wanted) {
  const MemoryScope scope(MemoryCategory::activations);
  const at::AutoGradMode grad(false);
  const Pass pass = model_->pass(false, 0, 0, micro.batch.sequence, micro.documents);
  const Tensor h = trunk(pass, micro.batch.tokens);
  const Gathered norm(model_->unit("norm"), &model_->unit(loss_ ? "output" : "value_heads"));
  const Tensor normed = model_->normed(h);
  if (!loss_) return {{"value", values(normed, pass)}};
  return predictions(normed, micro.batch.tokens, wanted.count("entropy") > 0);
}

/// The trunk's output, after the next-token head if there is one.
Tensor FrozenModel::trunk(const Pass& pass, const Tensor& tokens) {
  ShardUnit &norm = model_->unit("norm"), &after = loss_ ? model_->unit(head_block_name(model_->config(), 1)) : norm;
  const auto embed = [&] { return model_->embedded(model_->split().part(tokens)); };
  const auto run_block = [&](int64_t i, const Tensor& h) {
    return model_->trunk_block(i).forward(h, model_->rotary(), pass);
  };
  const Tensor h = model_->forward_trunk(&after, embed, run_block);
  if (!loss_) return h;
  const Gathered head(after, &norm);
  return model_->head_block(1).forward(h, model_->rotary(), pass);
}

Tensor FrozenModel::values(const Tensor& normed, const Pass& pass) {
  const Gathered heads(model_->unit("value_heads"));
  return model_->split().whole(model_->value_heads().front().forward(normed.to(at::kFloat), pass));
}

std::map<std::string, Tensor> FrozenModel::predictions(const Tensor& normed, const Tensor& tokens, bool entropies) {
  const Gathered output(model_->unit("output"));
  const int64_t B = tokens.size(0), S = tokens.size(1), L = normed.size(1);
  const Positions sources = model_->split().local_positions_below(S - 1, S);
  const auto rows_from = [&](const Tensor& x, int64_t first) {  // a single column would stay a view with a stride
    return x.narrow(1, first, sources.count).flatten(0, 1).contiguous();
  };
  const Scores scores =
      loss_->scores(rows_from(normed, 0), rows_from(tokens, sources.first + 1), {.entropies = entropies}, B * L);
  const auto by_source = [&](const Tensor& rows) {
    Tensor here = at::zeros({B, L}, rows.options());
    here.narrow(1, 0, sources.count).copy_(rows.view({B, sources.count}));
    return model_->split().whole(here);
  };
  std::map<std::string, Tensor> signals{{"loss", by_source(scores.losses)}};
  if (entropies) signals["entropy"] = by_source(scores.entropies);
  return signals;
}

FrozenCache::FrozenCache(std::string model, std::set<std::string> wanted, Build build, Stores stores)
    : model_(std::move(model)), wanted_(std::move(wanted)), build_(std::move(build)), stores_(std::move(stores)) {}

std::optional<FrozenCache::Signals> FrozenCache::read_cached(const MicroBatch& micro) const {
  if (stores_.empty()) return std::nullopt;
  Signals signals;
  for (const auto& [name, store] : stores_) {
    const std::optional<Tensor> signal = read(*store, micro);
    if (!signal) return std::nullopt;
    signals[model_ + "." + name] = *signal;
  }
  return signals;
}

FrozenCache::Signals FrozenCache::compute_and_cache(const MicroBatch& micro) {
  if (!frozen_) frozen_ = build_();
  Signals signals;
  for (const auto& [name, signal] : frozen_->signals(micro, wanted_)) {
    if (wanted_.count(name) == 0) continue;
    signals[model_ + "." + name] = signal;
    if (const auto store = stores_.find(name); store != stores_.end()) keep(*store->second, micro, signal);
  }
  return signals;
}

std::optional<Tensor> FrozenCache::read(const SignalStore& store, const MicroBatch& micro) const {
  const int64_t B = micro.batch.tokens.size(0), S = micro.batch.tokens.size(1);
  const at::Device device = micro.batch.tokens.device();
  Tensor signal = at::zeros({B, S}, at::TensorOptions(at::kFloat).pinned_memory(device.is_cuda()));
  std::vector<float> values(size_t(store.values_per_window()));
  for (int64_t b = 0; b < B; ++b) {
    const int64_t window = micro.windows[size_t(b)];
    if (window < 0) continue;
    if (!store.read(window, values.data())) return std::nullopt;
    std::copy_n(values.begin(), S, signal.mutable_data_ptr<float>() + b * S);
  }
  return signal.to(device, /*non_blocking=*/device.is_cuda());
}

/// A shorter batch only omits padding, which is never read.
void FrozenCache::keep(SignalStore& store, const MicroBatch& micro, const Tensor& signal) const {
  const Tensor rows = signal.to(at::kCPU).contiguous();
  std::vector<float> values(size_t(store.values_per_window()));
  for (int64_t b = 0; b < rows.size(0); ++b) {
    if (micro.windows[size_t(b)] < 0) continue;
    std::fill(values.begin(), values.end(), 0.0f);
    std::copy_n(rows.const_data_ptr<float>() + b * rows.size(1), rows.size(1), values.begin());
    store.write(micro.windows[size_t(b)], values.data());
  }
}

}  // namespace wmtp
