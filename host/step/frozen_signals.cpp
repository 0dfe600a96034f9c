#include "step/frozen_signals.hpp"

namespace wmtp {

FrozenSignals::FrozenSignals(const Models& models, const std::vector<MicroBatch>& micros)
    : models_(models), micros_(micros) {
  for (const MicroBatch& micro : micros_)
    for (const auto& model : models_) {
      cached_.push_back(model->read_cached(micro));
      missing_.push_back(cached_.back() ? 0 : 1);
    }
}

FrozenCache::Signals FrozenSignals::of(size_t index) const {
  FrozenCache::Signals signals;
  for (size_t m = 0; m < models_.size(); ++m) {
    const size_t place = index * models_.size() + m;
    signals.merge(missing_[place] > 0 ? models_[m]->compute_and_cache(micros_[index])
                                      : FrozenCache::Signals(*cached_[place]));
  }
  return signals;
}

}  // namespace wmtp
