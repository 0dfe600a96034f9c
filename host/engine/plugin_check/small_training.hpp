// A whole training, small enough to take milliseconds: a model of 32 dimensions on random records, in this process
// alone. Everything but the model's size is the real thing. [engine]
#pragma once

#include <functional>
#include <memory>

#include "engine/train/trainer.hpp"

namespace wmtp {

/// What is tried out, or stands beside it.
struct SmallParts {
  std::function<std::unique_ptr<Weighting>()> weighting;  ///< one of the two
  std::function<std::unique_ptr<Objective>()> objective;
  const Adapter* adapter = nullptr;  ///< null: all parameters train
  bool targets = true;               ///< without: prompts, single tokens and padding
  double sharpness = 1;              ///< factor on the output layer: losses become 0 or huge
  double value_scale = 1;            ///< size of a frozen value model's values
  int64_t batch_size = 4, sequence_length = 24;
  std::string name = "plugin";  ///< in messages
};

/// Built once, never moved.
class SmallTraining {
 public:
  explicit SmallTraining(SmallParts parts);
  ~SmallTraining();
  SmallTraining(const SmallTraining&) = delete;

  Trainer& trainer() { return *trainer_; }
  ShardedModel& model() { return *model_; }
  Channels& channels() { return channels_; }
  /// The plugin anew; what it keeps by Step::state stays.
  void replace_plugin();
  /// Losses of `steps` steps. Throws Error(plugin) when a step was skipped for its numbers.
  std::vector<double> losses(int steps);
  int64_t tokens_per_step() const { return experiment_.train.batch_size * experiment_.train.sequence_length; }

 private:
  FrozenCaches frozen_models();
  std::shared_ptr<FrozenModel> frozen_model(bool values);

  SmallParts parts_;
  Experiment experiment_;
  Peers peers_{RankEnvironment{}, std::chrono::seconds(1)};
  Channels channels_{peers_, nullptr, nullptr, std::chrono::seconds(1)};
  ActivePipeline pipeline_;
  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<Trainer> trainer_;
};

/// The model of such a training, with nothing beside its weights.
std::unique_ptr<ShardedModel> small_model(const Experiment& experiment, const LayoutRequest& layout, int64_t seed,
                                          Channels& channels);

}  // namespace wmtp
