// FrozenModel: a reference or the value model, which computes signals for every token and is never trained.
// FrozenCache: the signals that a pipeline reads from one frozen model, by window. They never change, so they are
// cached on disk (step/signal_store.hpp): a second epoch, or another run with the same model and data,
// computes none, and the model is loaded only if a window is missing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/torch/batches.hpp"
#include "model/torch/linear_cross_entropy.hpp"
#include "shard/sharded_model.hpp"
#include "step/signal_store.hpp"

namespace wmtp {

/// Sharded with its own strategy, in its own precision; holds only the heads whose signals are read.
class FrozenModel {
 public:
  /// `model` has one token head or several, or Heads::none and one value head.
  FrozenModel(std::unique_ptr<ShardedModel> model, int64_t chunk_tokens);
  /// fp32 by name: "loss" and "entropy" at each source position, of the next token [B,S] or, with several heads, of
  /// head k in [B,S,H] at k - 1 (0 without a target); "value" after each position [B,S]. Padding is predicted like any
  /// token: the caller must mask it. [all ranks, collective]
  /// "hidden": the normed hidden states of each head at this rank's positions, [K,B,L,D].
  std::map<std::string, at::Tensor> signals(const MicroBatch& micro, const std::set<std::string>& wanted);
  /// Computes logits from "hidden" while output_unit() is gathered. Requires token heads.
  const LinearCrossEntropy& output() const { return *loss_; }
  ShardUnit& output_unit() { return model_->unit("output"); }
  const SequenceSplit& split() const { return model_->split(); }

 private:
  std::vector<at::Tensor> outputs(const ForwardContext& context, const at::Tensor& tokens);
  at::Tensor values(const at::Tensor& trunk, const ForwardContext& context);
  std::map<std::string, at::Tensor> predictions(std::vector<at::Tensor> outputs, const at::Tensor& tokens,
                                                const std::set<std::string>& wanted);
  Scores scores(int64_t head, const at::Tensor& normed, const at::Tensor& tokens, bool entropies);

  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<LinearCrossEntropy> loss_;  ///< null if there is no token head
};

class FrozenCache {
 public:
  using Build = std::function<std::shared_ptr<FrozenModel>()>;
  using Stores = std::map<std::string, std::unique_ptr<SignalStore>>;

  /// `model`: its table, "reference", "references.NAME" or "value". `wanted`: "loss", "entropy", "hidden", "value".
  /// `stores`: one for each, or none to disable caching, as for "hidden", which is too large; a record has the values
  /// of a window's positions, of each those of all heads. `build` is called at most once, on all ranks together;
  /// several caches may share its model. `heads`: the token heads of that model.
  FrozenCache(std::string model, std::set<std::string> wanted, Build build, Stores stores, int64_t heads = 1);

  /// "reference.loss" and so on, as of FrozenModel.
  using Signals = std::map<std::string, at::Tensor>;
  /// The cached signals; nullopt if a window of this rank is missing. [each rank, no communication]
  std::optional<Signals> read_cached(const MicroBatch& micro) const;
  /// Runs the model and caches its signals. Needed if any rank lacks some. [all ranks, collective]
  Signals compute_and_cache(const MicroBatch& micro);
  /// [all ranks, collective on the first call]
  FrozenModel& model();

 private:
  std::optional<at::Tensor> read(const SignalStore& store, const MicroBatch& micro) const;
  void keep(SignalStore& store, const MicroBatch& micro, const at::Tensor& signal) const;
  std::string model_;
  std::set<std::string> wanted_;
  Build build_;
  Stores stores_;
  int64_t heads_;
  std::shared_ptr<FrozenModel> frozen_;
};

}  // namespace wmtp
