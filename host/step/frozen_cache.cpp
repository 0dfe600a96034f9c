#include "step/frozen_cache.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "memory/allocator.hpp"
#include "step/head_inputs.hpp"

namespace wmtp {

using at::Tensor;

FrozenModel::FrozenModel(std::unique_ptr<ShardedModel> model, int64_t chunk_tokens) : model_(std::move(model)) {
  if (model_->num_heads() > 0)
    loss_ = std::make_unique<LinearCrossEntropy>(model_->weight("output.weight"), chunk_tokens, model_->vocabulary());
}

std::map<std::string, Tensor> FrozenModel::signals(const MicroBatch& micro, const std::set<std::string>& wanted) {
  const MemoryScope scope(MemoryCategory::activations);
  const at::AutoGradMode grad(false);
  const ForwardContext context = model_->forward_context(false, 0, 0, micro.batch.sequence, micro.documents);
  std::vector<Tensor> read = outputs(context, micro.batch.tokens);
  const GatherScope norm(model_->unit("norm"), &model_->unit(loss_ ? "output" : "value_heads"));
  if (!loss_) return {{"value", values(read.front(), context)}};
  return predictions(std::move(read), micro.batch.tokens, wanted);
}

/// Of each token head, before the final norm; of the trunk if there is none.
std::vector<Tensor> FrozenModel::outputs(const ForwardContext& context, const Tensor& tokens) {
  const auto unit_of = [&](int64_t head) -> ShardUnit& {
    const bool has_head = head <= model_->num_heads();
    return model_->unit(has_head ? head_block_name(model_->config(), head) : "norm");
  };
  HeadInputs inputs;
  const auto embed = [&] { return embedded_for_heads(*model_, tokens, inputs); };
  const auto run_block = [&](int64_t i, const Tensor& h) {
    return model_->trunk_block(i).forward(h, model_->rotary(), context);
  };
  inputs.trunk = model_->forward_trunk(&unit_of(1), embed, run_block);
  if (!loss_) return {inputs.trunk};
  std::vector<Tensor> outputs;
  for (int64_t k = 1; k <= model_->num_heads(); ++k) {
    const GatherScope block(unit_of(k), &unit_of(k + 1));
    const Tensor& read = k > 1 && model_->chains_heads() ? outputs.back() : inputs.trunk;
    outputs.push_back(model_->head_block(k).forward(read, model_->rotary(), context, embedded_for(k, inputs)));
  }
  return outputs;
}

Tensor FrozenModel::values(const Tensor& trunk, const ForwardContext& context) {
  const Tensor normed = model_->normed(trunk);
  const GatherScope heads(model_->unit("value_heads"));
  return model_->split().whole(model_->value_heads().front().forward(normed.to(at::kFloat), context));
}

std::map<std::string, Tensor> FrozenModel::predictions(std::vector<Tensor> outputs, const Tensor& tokens,
                                                       const std::set<std::string>& wanted) {
  const bool entropies = wanted.contains("entropy"), scored = entropies || wanted.contains("loss");
  const GatherScope weight(output_unit());
  std::vector<Tensor> hidden, losses, of_entropy;
  for (int64_t k = 1; k <= int64_t(outputs.size()); ++k) {
    const Tensor normed = model_->normed(std::exchange(outputs[size_t(k - 1)], {}));
    if (wanted.contains("hidden")) hidden.push_back(normed);
    if (!scored) continue;
    const Scores head_scores = scores(k, normed, tokens, entropies);
    losses.push_back(head_scores.losses);
    of_entropy.push_back(head_scores.entropies);
  }
  const auto of_all = [&](const std::vector<Tensor>& heads) {
    return model_->split().whole(heads.size() == 1 ? heads.front() : at::stack(heads, -1));
  };
  std::map<std::string, Tensor> signals;
  if (!hidden.empty()) signals["hidden"] = at::stack(hidden);
  if (scored) signals["loss"] = of_all(losses);
  if (entropies) signals["entropy"] = of_all(of_entropy);
  return signals;
}

/// By source, [B,L].
Scores FrozenModel::scores(int64_t head, const Tensor& normed, const Tensor& tokens, bool entropies) {
  const int64_t B = tokens.size(0), S = tokens.size(1), L = normed.size(1);
  const int64_t offset = future_offset(model_->config().future_offsets, head);
  const Positions sources = model_->split().local_positions_below(S - offset, S);
  const auto rows_from = [&](const Tensor& x, int64_t first) {  // a single column would stay a view with a stride
    return x.narrow(1, first, sources.count).flatten(0, 1).contiguous();
  };
  Scores scores = loss_->scores(rows_from(normed, 0), rows_from(tokens, std::min(sources.first + offset, S)),
                                {.entropies = entropies}, B * L);
  for (Tensor* one : {&scores.losses, &scores.entropies}) {
    if (!one->defined()) continue;
    Tensor here = at::zeros({B, L}, one->options());
    here.narrow(1, 0, sources.count).copy_(one->view({B, sources.count}));
    *one = here;
  }
  return scores;
}

FrozenCache::FrozenCache(std::string model, std::set<std::string> wanted, Build build, Stores stores, int64_t heads)
    : model_(std::move(model)),
      wanted_(std::move(wanted)),
      build_(std::move(build)),
      stores_(std::move(stores)),
      heads_(heads) {}

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

FrozenModel& FrozenCache::model() {
  if (!frozen_) frozen_ = build_();
  return *frozen_;
}

FrozenCache::Signals FrozenCache::compute_and_cache(const MicroBatch& micro) {
  Signals signals;
  for (const auto& [name, signal] : model().signals(micro, wanted_)) {
    if (wanted_.count(name) == 0) continue;
    signals[model_ + "." + name] = signal;
    if (const auto store = stores_.find(name); store != stores_.end()) keep(*store->second, micro, signal);
  }
  return signals;
}

std::optional<Tensor> FrozenCache::read(const SignalStore& store, const MicroBatch& micro) const {
  const int64_t B = micro.batch.tokens.size(0), S = micro.batch.tokens.size(1);
  const at::Device device = micro.batch.tokens.device();
  const std::vector<int64_t> shape = heads_ == 1 ? std::vector{B, S} : std::vector{B, S, heads_};
  Tensor signal = at::zeros(shape, at::TensorOptions(at::kFloat).pinned_memory(device.is_cuda()));
  std::vector<float> values(size_t(store.values_per_window()));
  for (int64_t b = 0; b < B; ++b) {
    const int64_t window = micro.windows[size_t(b)];
    if (window < 0) continue;
    if (!store.read(window, values.data())) return std::nullopt;
    std::copy_n(values.begin(), S * heads_, signal.mutable_data_ptr<float>() + b * S * heads_);
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
    std::copy_n(rows.const_data_ptr<float>() + b * rows.stride(0), rows.stride(0), values.begin());
    store.write(micro.windows[size_t(b)], values.data());
  }
}

}  // namespace wmtp
