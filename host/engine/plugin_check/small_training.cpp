#include "engine/plugin_check/small_training.hpp"

#include <cmath>

#include "base/error.hpp"
#include "engine/plugin_check/random_records.hpp"
#include "engine/plugin_runtime/boundary.hpp"

namespace wmtp {
namespace {

class EverythingTrains final : public Adapter {
 public:
  bool trains(const std::string&) const override { return true; }
};

Experiment small_experiment(const SmallParts& parts) {
  Experiment e;
  e.name = "trial";
  e.seed = 7;
  e.model.dim = 32;
  e.model.layers = 3;  // one of the trunk, two heads
  e.model.heads = e.model.kv_heads = 2;
  e.model.ffn_dim = 48;
  e.model.vocab_size = 64;
  e.model.future_tokens = 2;
  e.data.kind = "records";
  e.train.steps = 1000;
  e.train.batch_size = parts.batch_size;
  e.train.sequence_length = parts.sequence_length;
  e.optimizer.lr = 1e-3;
  e.log.samples = 0;
  e.reference.given = e.value.given = true;  // whatever it reads is there
  return e;
}

/// Values that differ from token to token, where the first ones would all be zero.
void draw_value_head(ShardedModel& model, double scale) {
  model.fill([&](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
    if (!spec.name.starts_with("value_heads.")) return false;
    for (int64_t i = 0; i < count; ++i) out[i] = float(scale * std::sin(double(begin + i + 1)));
    return true;
  });
}

/// Scores far apart, so that tokens are known or missed beyond doubt.
void sharpen(ShardedModel& model, double factor) {
  if (factor == 1) return;
  for (const auto& group : model.unit("output").groups()) {
    group->master().mul_(factor);
    group->master_changed();
  }
}

}  // namespace

std::unique_ptr<ShardedModel> small_model(const Experiment& experiment, const LayoutRequest& layout, int64_t seed,
                                          Channels& channels) {
  ShardedModelRequest request;
  request.layout = layout;
  request.layout.model = &experiment.model;
  request.options.strategy = Strategy::no_shard;
  request.positions = experiment.train.sequence_length;
  auto model = std::make_unique<ShardedModel>(request, channels);
  model->initialize(seed);
  return model;
}

SmallTraining::SmallTraining(SmallParts parts)
    : parts_(std::move(parts)),
      experiment_(small_experiment(parts_)),
      pipeline_(make_pipeline(parts_.name, parts_.weighting ? parts_.weighting() : nullptr,
                              parts_.objective ? parts_.objective() : nullptr, experiment_)) {
  static const EverythingTrains everything;
  LayoutRequest layout;
  layout.heads = pipeline_.objective ? Heads::none : Heads::all;
  layout.adapter = parts_.adapter ? parts_.adapter : &everything;
  layout.value_heads = pipeline_.needs.heads;
  model_ = small_model(experiment_, layout, experiment_.seed, channels_);
  draw_value_head(*model_, 0.1);
  if (!pipeline_.objective) sharpen(*model_, parts_.sharpness);
  BatchRequest wanted;
  wanted.heads = model_->num_heads();
  wanted.prompts = pipeline_.needs.prompts;
  wanted.pairs = pipeline_.needs.pairs;
  source_ =
      random_records({parts_.batch_size, parts_.sequence_length, experiment_.model.vocab_size, parts_.targets, wanted});
  trainer_ = std::make_unique<Trainer>(experiment_, experiment_.train.steps, *model_, pipeline_, frozen_models(),
                                       TrainerData{source_.get(), source_.get(), 4 * parts_.batch_size}, channels_);
}

SmallTraining::~SmallTraining() = default;

FrozenCaches SmallTraining::frozen_models() {
  FrozenCaches frozen;
  if (!pipeline_.reference.empty())
    frozen.training.push_back(std::make_unique<FrozenCache>(
        "reference", pipeline_.reference, [this] { return frozen_model(false); }, FrozenCache::Stores{}));
  if (!pipeline_.value.empty())
    frozen.training.push_back(std::make_unique<FrozenCache>(
        "value", pipeline_.value, [this] { return frozen_model(true); }, FrozenCache::Stores{}));
  return frozen;
}

std::shared_ptr<FrozenModel> SmallTraining::frozen_model(bool values) {
  LayoutRequest layout;
  layout.heads = values ? Heads::none : Heads::first;
  if (values) layout.value_heads = {{"value", "linear"}};
  auto model = small_model(experiment_, layout, experiment_.seed + 1, channels_);
  if (values) draw_value_head(*model, parts_.value_scale);
  return std::make_shared<FrozenModel>(std::move(model), chunk_tokens(experiment_.model.vocab_size));
}

void SmallTraining::replace_plugin() {
  if (parts_.objective)
    pipeline_.objective = parts_.objective();
  else
    pipeline_.weighting = parts_.weighting();
  guarded(parts_.name, "needs",
          [&] { return pipeline_.objective ? pipeline_.objective->needs() : pipeline_.weighting->needs(); });
}

std::vector<double> SmallTraining::losses(int steps) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    const StepReport report = trainer_->step();
    if (!report.skipped.empty())
      throw Error(ExitStatus::plugin, "step " + std::to_string(report.step) + ": " + report.skipped);
    losses.push_back(report.loss);
  }
  return losses;
}

}  // namespace wmtp
