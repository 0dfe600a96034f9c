// SmallTraining: a complete training run of a few milliseconds: a 32-dimensional model on random records, in one
// process. Uses the same code as a real run; only the sizes differ.
#pragma once

#include <functional>
#include <memory>

#include "comm/torch/single_rank.hpp"
#include "train/trainer.hpp"

namespace wmtp {

/// The plugin under test and the other parts of the run.
struct SmallParts {
  std::function<std::unique_ptr<Weighting>()> weighting;  ///< this or an objective
  std::function<std::unique_ptr<Objective>()> objective;
  std::function<std::unique_ptr<AuxiliaryLoss>()> auxiliary_loss;  ///< in addition to the weighting
  const Adapter* adapter = nullptr;                                ///< null: all parameters train
  bool targets = true;                                             ///< false: only prompts, single tokens and padding
  double sharpness = 1;    ///< factor on the output layer; if large, losses become 0 or huge
  double value_scale = 1;  ///< factor on a frozen value model's values
  int64_t batch_size = 4, sequence_length = 24;
  at::Device device = at::kCPU;
  std::string name = "plugin";  ///< in messages
};

class SmallTraining {
 public:
  explicit SmallTraining(const SmallParts& parts);
  ~SmallTraining();
  SmallTraining(const SmallTraining&) = delete;

  Trainer& trainer() { return *trainer_; }
  ShardedModel& model() { return *model_; }
  Channels& channels() { return rank_.channels; }
  /// Creates the plugin again, keeping its Step::state.
  void replace_plugin();
  /// The losses of `steps` steps. Error(plugin) if a step was skipped.
  std::vector<double> losses(int steps);
  int64_t tokens_per_step() const { return experiment_.train.batch_size * experiment_.train.sequence_length; }

 private:
  /// `weighting`: made by `parts`, or null.
  SmallTraining(const SmallParts& parts, std::unique_ptr<Weighting> weighting);
  FrozenCaches frozen_models();
  std::shared_ptr<FrozenModel> frozen_model(bool values, int64_t seed);

  SmallParts parts_;
  Experiment experiment_;
  SingleRank rank_;
  ActivePipeline pipeline_;
  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace wmtp
