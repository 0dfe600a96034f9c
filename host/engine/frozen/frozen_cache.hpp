// FrozenCache: what a pipeline reads of one frozen model, window by window. What such a model says of a window never
// changes, so it is kept on disk (engine/frozen/signal_store.hpp): a second epoch, and the next run with the same model and
// data, compute none of it, and the model is not even loaded until a window is missing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "engine/batches/batches.hpp"
#include "engine/frozen/frozen_model.hpp"
#include "engine/frozen/signal_store.hpp"

namespace wmtp {

class FrozenCache {
 public:
  using Build = std::function<std::shared_ptr<FrozenModel>()>;
  using Stores = std::map<std::string, std::unique_ptr<SignalStore>>;

  /// `model`: "reference" or "value". `wanted`: "loss", "entropy", "value". `stores`: one for each of them, or none
  /// when nothing is to be kept. `build` is called at most once, on all ranks together; what it gives may serve other data too.
  FrozenCache(std::string model, std::set<std::string> wanted, Build build, Stores stores);

  /// "reference.loss" and so on, [B,S] each.
  using Signals = std::map<std::string, at::Tensor>;
  /// As they were kept; nothing when this rank lacks some window of these. [each rank, no communication]
  std::optional<Signals> kept(const MicroBatch& micro) const;
  /// Asks the model, and keeps what it says: when some rank lacks something. [all ranks, collective]
  Signals computed(const MicroBatch& micro);

 private:
  std::optional<at::Tensor> read(const SignalStore& store, const MicroBatch& micro) const;
  void keep(SignalStore& store, const MicroBatch& micro, const at::Tensor& signal) const;
  std::string model_;
  std::set<std::string> wanted_;
  Build build_;
  Stores stores_;
  std::shared_ptr<FrozenModel> frozen_;
};

}  // namespace wmtp
