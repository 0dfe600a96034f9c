#include "train/frozen_signals.hpp"

namespace wmtp {

using at::Tensor;

FrozenSignals::FrozenSignals(std::string model, std::set<std::string> wanted, Build build, Stores stores)
    : model_(std::move(model)), wanted_(std::move(wanted)), build_(std::move(build)), stores_(std::move(stores)) {}

bool FrozenSignals::lacks(const MicroBatch& micro) const {
  if (stores_.empty()) return true;
  for (const auto& [name, store] : stores_) {
    std::vector<float> values(size_t(store->values_per_window()));
    for (const int64_t window : micro.windows)
      if (window >= 0 && !store->read(window, values.data())) return true;
  }
  return false;
}

void FrozenSignals::add(const MicroBatch& micro, bool compute, std::map<std::string, Tensor>& signals) {
  if (!compute) {
    for (const auto& [name, store] : stores_) signals[model_ + "." + name] = kept(*store, micro);
    return;
  }
  if (!frozen_) frozen_ = build_();
  for (const auto& [name, signal] : frozen_->signals(micro.batch, wanted_)) {
    if (wanted_.count(name) == 0) continue;
    signals[model_ + "." + name] = signal;
    if (const auto store = stores_.find(name); store != stores_.end()) keep(*store->second, micro, signal);
  }
}

Tensor FrozenSignals::kept(const SignalStore& store, const MicroBatch& micro) const {
  const int64_t B = micro.batch.tokens.size(0), S = micro.batch.tokens.size(1);
  Tensor signal = at::zeros({B, S}, at::kFloat);
  std::vector<float> values(size_t(store.values_per_window()));
  for (int64_t b = 0; b < B; ++b)
    if (micro.windows[size_t(b)] >= 0 && store.read(micro.windows[size_t(b)], values.data()))
      std::copy_n(values.begin(), S, signal.mutable_data_ptr<float>() + b * S);
  return signal.to(micro.batch.tokens.device());
}

/// A shorter batch leaves out padding only, which nobody reads.
void FrozenSignals::keep(SignalStore& store, const MicroBatch& micro, const Tensor& signal) const {
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
