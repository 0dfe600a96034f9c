// A complete training in the test's process: a small model on random ids, with a weighting from a function.
#pragma once

#include <functional>
#include <memory>

#include "train/assembly.hpp"
#include "train/trainer.hpp"

namespace wmtp::test {

class Everything : public Adapter {
 public:
  bool trains(const std::string&) const override { return true; }
};

/// A step of any moment; `whole` is null at When::token.
struct AnyStep {
  TokenStep& step;
  WholeBatch* whole;
  int64_t head() const { return step.head(); }
  int64_t heads() const { return step.heads(); }
  Tensor get(Signal signal) { return step.get(signal); }
  Tensor get(const ReferenceSignal& signal) { return step.get(signal); }
  Tensor valid() { return step.valid(); }
  Tensor counts() { return step.counts(); }
  int64_t number() const { return step.number(); }
  void metric(const std::string& name, const Tensor& sum, const Tensor& count) { step.metric(name, sum, count); }
  const Batch& batch() const { return whole->batch(); }
  Collectives& collectives() { return whole->collectives(); }
  Tensor value(const ValueSignal& value) { return whole->value(value); }
  Tensor uniform(int64_t stream) { return whole->uniform(stream); }
  Tensor& state(const std::string& name, const Tensor& first) { return whole->state(name, first); }
};

/// A weighting from a function.
class Weigh : public Weighting {
 public:
  Weigh(Needs needs, std::function<Weights(AnyStep)> weigh) : needs_(std::move(needs)), weigh_(std::move(weigh)) {}
  Needs needs() const override { return needs_; }
  Weights weigh(TokenStep& step) override { return weigh_({step, nullptr}); }
  Weights weigh(HeadStep& step) override { return weigh_({step, &step}); }
  Weights weigh(BatchStep& step) override { return weigh_({step, &step}); }

 private:
  Needs needs_;
  std::function<Weights(AnyStep)> weigh_;
};

inline std::unique_ptr<Weighting> baseline() {
  return std::make_unique<Weigh>(Needs{.when = When::before}, [](AnyStep) { return Weights::uniform(); });
}

/// Keeps the 60% of a head's tokens with the largest excess loss over the reference.
inline std::unique_ptr<Weighting> keeps_excess() {
  return std::make_unique<Weigh>(
      Needs{.when = When::head, .reads = {Signal::policy_loss, Signal::reference_loss}}, [](AnyStep step) {
        const Tensor excess = step.get(Signal::policy_loss) - step.get(Signal::reference_loss);
        const Tensor kept =
            (excess >= step.collectives().quantile(excess, step.valid(), 0.4)).logical_and(step.valid());
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

/// A policy of this experiment or, without an adapter, a reference; without values. `experiment` and `adapter` outlive
/// it.
inline std::unique_ptr<ShardedModel> empty_model(const Experiment& experiment, Heads heads, const Adapter* adapter,
                                                 Channels& channels, const std::vector<ValueHead>& value_heads,
                                                 const at::Device& device) {
  ShardedModelRequest request;
  request.spec.model = &experiment.model;
  request.spec.heads = heads;
  request.spec.adapter = adapter;
  request.spec.value_heads = value_heads;
  request.spec.optimizer = experiment.optimizer;
  request.options = group_options(experiment.parallel, device);
  request.sequence_length = experiment.train.sequence_length;
  if (adapter) request.section = section_of(channels);  // a reference is whole
  return std::make_unique<ShardedModel>(request, channels);
}

/// The same with values of this seed.
inline std::unique_ptr<ShardedModel> tiny_model(const Experiment& experiment, Heads heads, const Adapter* adapter,
                                                int64_t seed, Channels& channels,
                                                const std::vector<ValueHead>& value_heads = {},
                                                const at::Device& device = at::kCPU) {
  auto model = empty_model(experiment, heads, adapter, channels, value_heads, device);
  if (!device.is_meta()) model->initialize(seed);
  return model;
}

inline ActivePipeline pipeline_of(std::unique_ptr<Weighting> weighting) {
  ActivePipeline pipeline;
  pipeline.name = "made by the test";
  pipeline.needs = weighting->needs();
  pipeline.weighting = std::move(weighting);
  for (const Signal signal : pipeline.needs.reads) {
    if (signal == Signal::reference_loss) pipeline.frozen["reference"].insert("loss");
    if (signal == Signal::reference_entropy) pipeline.frozen["reference"].insert("entropy");
  }
  return pipeline;
}

inline ActivePipeline pipeline_of(std::unique_ptr<Objective> objective) {
  ActivePipeline pipeline;
  pipeline.name = "made by the test";
  pipeline.needs = objective->needs();
  pipeline.objective = std::move(objective);
  return pipeline;
}

/// The parts of a training besides its pipeline, with defaults.
struct TinyParts {
  const Adapter* adapter = nullptr;       ///< none: everything trains
  const BatchSource* training = nullptr;  ///< none: random windows, also used for validation
  const BatchSource* validation = nullptr;
  int64_t validation_sequences = 4;
  std::function<FrozenCache::Stores()> stores = {};  ///< caches of the reference's signals; none: not cached
  std::function<void()> on_build = [] {};            ///< called when the reference is built
  at::Device device = at::kCPU;
};

/// Owns the parts; not movable.
class TinyTraining {
 public:
  template <class Plugin>
  TinyTraining(const Experiment& experiment, std::unique_ptr<Plugin> plugin, Channels& channels,
               const TinyParts& parts = {})
      : experiment_(experiment), pipeline_(pipeline_of(std::move(plugin))) {
    model_ = empty_model(experiment_, pipeline_.objective ? Heads::none : Heads::all,
                         parts.adapter ? parts.adapter : &everything_, channels, pipeline_.needs.heads, parts.device);
    const TrainConfig& train = experiment_.train;
    windows_ = random_windows(experiment_.seed, train.sequence_length, experiment_.model.vocab_size);
    BatchRequest request;
    request.heads = model_->num_heads();
    request.offsets = experiment_.model.future_offsets;
    request.device = parts.device;
    source_ = window_batches(*windows_, WindowOrder(experiment_.seed, windows_->count(), DataOrder::sequential),
                             train.batch_size, train.sequence_length, request);
    FrozenCaches frozen;
    const bool reads_own_heads = experiment_.reference.heads == ReferenceHeads::own;
    const auto reference = [&](FrozenCache::Stores stores) {
      return std::make_unique<FrozenCache>(
          "reference", pipeline_.frozen.at("reference"),
          [this, &channels, reads_own_heads, on_build = parts.on_build, device = parts.device] {
            on_build();
            const Heads heads = reads_own_heads ? Heads::all : Heads::first;
            return std::make_shared<FrozenModel>(
                tiny_model(experiment_, heads, nullptr, experiment_.seed + 1, channels, {}, device),
                chunk_tokens(experiment_.model.vocab_size, /*on_cuda=*/false));
          },
          std::move(stores), reads_own_heads ? experiment_.model.future_tokens : 1);
    };
    if (pipeline_.frozen.contains("reference") && model_->section().is_last()) {
      frozen.training.push_back(reference(parts.stores ? parts.stores() : FrozenCache::Stores{}));
      frozen.validation.push_back(reference({}));
    }
    const BatchSource* training = parts.training ? parts.training : source_.get();
    trainer_ = std::make_unique<Trainer>(
        experiment_, train.steps, *model_, pipeline_, std::move(frozen),
        TrainerData{training, parts.validation ? parts.validation : training, parts.validation_sequences}, channels);
    if (!parts.device.is_meta()) model_->initialize(experiment_.seed);  // after the optimizer, as in Assembly
  }
  TinyTraining(const TinyTraining&) = delete;
  Trainer& operator*() { return *trainer_; }
  Trainer* operator->() { return trainer_.get(); }
  ShardedModel& model() { return *model_; }

 private:
  Experiment experiment_;
  Everything everything_;
  ActivePipeline pipeline_;
  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<TokenWindows> windows_;
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace wmtp::test
