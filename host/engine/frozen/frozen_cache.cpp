#include "engine/frozen/frozen_cache.hpp"

namespace wmtp {

using at::Tensor;

FrozenCache::FrozenCache(std::string model, std::set<std::string> wanted, Build build, Stores stores)
    : model_(std::move(model)), wanted_(std::move(wanted)), build_(std::move(build)), stores_(std::move(stores)) {}

std::optional<FrozenCache::Signals> FrozenCache::kept(const MicroBatch& micro) const {
  if (stores_.empty()) return std::nullopt;
  Signals signals;
  for (const auto& [name, store] : stores_) {
    const std::optional<Tensor> signal = read(*store, micro);
    if (!signal) return std::nullopt;
    signals[model_ + "." + name] = *signal;
  }
  return signals;
}

FrozenCache::Signals FrozenCache::computed(const MicroBatch& micro) {
  if (!frozen_) frozen_ = build_();
  Signals signals;
  for (const auto& [name, signal] : frozen_->signals(micro.batch, wanted_)) {
    if (wanted_.count(name) == 0) continue;
    signals[model_ + "." + name] = signal;
    if (const auto store = stores_.find(name); store != stores_.end()) keep(*store->second, micro, signal);
  }
  return signals;
}

std::optional<Tensor> FrozenCache::read(const SignalStore& store, const MicroBatch& micro) const {
  const int64_t B = micro.batch.tokens.size(0), S = micro.batch.tokens.size(1);
  Tensor signal = at::zeros({B, S}, at::kFloat);
  std::vector<float> values(size_t(store.values_per_window()));
  for (int64_t b = 0; b < B; ++b) {
    const int64_t window = micro.windows[size_t(b)];
    if (window < 0) continue;
    if (!store.read(window, values.data())) return std::nullopt;
    std::copy_n(values.begin(), S, signal.mutable_data_ptr<float>() + b * S);
  }
  return signal.to(micro.batch.tokens.device());
}

/// A shorter batch leaves out padding only, which nobody reads.
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
