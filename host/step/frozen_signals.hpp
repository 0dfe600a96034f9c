// FrozenSignals: what the frozen models say about the micro-batches of a step. Each cache is read once, before the
// ranks agree on which signals are missing: a record may be gone when it is read again (step/signal_store.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "step/frozen_cache.hpp"

namespace wmtp {

class FrozenSignals {
 public:
  using Models = std::vector<std::unique_ptr<FrozenCache>>;

  /// Reads the caches. `models` and `micros` must outlive this object. [each rank, no communication]
  FrozenSignals(const Models& models, const std::vector<MicroBatch>& micros);

  /// For each micro-batch and model, 1 if its signals are not cached, else 0. With several ranks, replace them by their
  /// sums over ranks before of() is called (count_over_ranks): all ranks run a model, or none.
  std::vector<double>& missing() { return missing_; }
  /// Of all models for the micro-batch with this index. Runs a model, in each call, if any rank lacks its signals. [all
  /// ranks, collective]
  FrozenCache::Signals of(size_t index) const;

 private:
  const Models& models_;
  const std::vector<MicroBatch>& micros_;
  std::vector<std::optional<FrozenCache::Signals>> cached_;  ///< by micro-batch and model, as missing_
  std::vector<double> missing_;
};

}  // namespace wmtp
