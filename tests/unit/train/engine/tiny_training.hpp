// A whole training in the test's own process: a small model on random ids, with a weighting made on the spot.
#pragma once

#include <functional>
#include <memory>

#include "train/trainer.hpp"

namespace wmtp::test {

class Everything : public Adapter {
 public:
  bool trains(const std::string&) const override { return true; }
};

/// A weighting from a function.
class Weigh : public Weighting {
 public:
  Weigh(Needs needs, std::function<Weights(Step&)> weigh) : needs_(std::move(needs)), weigh_(std::move(weigh)) {}
  Needs needs() const override { return needs_; }
  Weights weigh(Step& step) override { return weigh_(step); }

 private:
  Needs needs_;
  std::function<Weights(Step&)> weigh_;
};

inline std::unique_ptr<Weighting> baseline() {
  return std::make_unique<Weigh>(Needs{.when = When::before}, [](Step&) { return Weights::uniform(); });
}

/// Keeps 60% of a head's tokens by what they lose more than the reference.
inline std::unique_ptr<Weighting> keeps_excess() {
  return std::make_unique<Weigh>(
      Needs{.when = When::head, .reads = {{"policy", "loss"}, {"reference", "loss"}}}, [](Step& step) {
        const Tensor excess = step.get({"policy", "loss"}) - step.get({"reference", "loss"});
        const Tensor kept = (excess >= step.across().quantile(excess, step.valid(), 0.4)).logical_and(step.valid());
        step.metric("kept", kept.sum(), step.valid().sum());
        return Weights::by_source(kept.to(at::kFloat));
      });
}

inline Experiment tiny_experiment() {
  Experiment e;
  e.name = "tiny";
  e.seed = 9;
  e.model.dim = 16;
  e.model.layers = 4;
  e.model.heads = e.model.kv_heads = 2;
  e.model.ffn_dim = 24;
  e.model.vocab_size = 40;
  e.model.future_tokens = 3;
  e.train.steps = 10;
  e.train.batch_size = 2;
  e.train.sequence_length = 12;
  e.optimizer.lr = 1e-2;
  return e;
}

/// Holds the parts; built once, never moved.
class TinyTraining {
 public:
  TinyTraining(const Experiment& experiment, std::unique_ptr<Weighting> weighting, Channels& channels)
      : experiment_(experiment) {
    pipeline_.name = "made by the test";
    pipeline_.needs = weighting->needs();
    pipeline_.weighting = std::move(weighting);
    for (const Read& read : pipeline_.needs.reads) {
      if (read.model == "reference") pipeline_.reference.insert(read.what);
      pipeline_.reads_entropy |= read.model == "policy" && read.what == "entropy";
    }
    model_ = model_of(Heads::all, &everything_, experiment_.seed, channels);
    const TrainConfig& train = experiment_.train;
    windows_ = random_windows(experiment_.seed, train.sequence_length, experiment_.model.vocab_size);
    BatchRequest request;
    request.heads = model_->num_heads();
    source_ = window_batches(*windows_, WindowOrder(experiment_.seed, windows_->count(), "sequential"),
                             train.batch_size, train.sequence_length, request);
    std::vector<std::unique_ptr<FrozenSignals>> frozen;
    if (!pipeline_.reference.empty())
      frozen.push_back(std::make_unique<FrozenSignals>(
          "reference", pipeline_.reference,
          [&] {
            return std::make_unique<FrozenModel>(model_of(Heads::first, nullptr, experiment_.seed + 1, channels),
                                                 chunk_tokens(experiment_.model.vocab_size));
          },
          FrozenSignals::Stores{}));
    trainer_ = std::make_unique<Trainer>(experiment_, train.steps, *model_, pipeline_, std::move(frozen),
                                         TrainerData{source_.get(), source_.get(), 4}, channels);
  }
  TinyTraining(const TinyTraining&) = delete;
  Trainer& operator*() { return *trainer_; }
  Trainer* operator->() { return trainer_.get(); }

 private:
  std::unique_ptr<ShardedModel> model_of(Heads heads, const Adapter* adapter, int64_t seed, Channels& channels) {
    ShardedModelRequest request;
    request.layout.model = &experiment_.model;
    request.layout.heads = heads;
    request.layout.adapter = adapter;
    request.options.strategy = experiment_.parallel.strategy;
    request.options.compute = experiment_.parallel.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
    request.positions = experiment_.train.sequence_length;
    auto model = std::make_unique<ShardedModel>(request, channels);
    model->initialize(seed);
    return model;
  }

  Experiment experiment_;
  Everything everything_;
  PipelineInUse pipeline_;
  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<TokenWindows> windows_;
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace wmtp::test
