// Trainer: optimizer steps, one after another.
//
// step(): 1. fetch the step's micro-batches and count their targets over all ranks  2. forward and backward of each
// 3. one exchange of everything that was summed: losses, metrics, the squared norm, wishes to stop  4. the same verdict
// on every rank: refuse faulty weights, skip, or clip and step the optimizer  5. the report. The host reads values of
// the device once a step, plus one read a head where a pipeline drops tokens.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "engine/batches/batches.hpp"
#include "engine/frozen/frozen_cache.hpp"
#include "engine/memory/watch.hpp"
#include "engine/shard/sharded_model.hpp"
#include "engine/shard/sharded_optimizer.hpp"
#include "engine/train/active_pipeline.hpp"
#include "engine/train/micro_step.hpp"
#include "engine/train/samples.hpp"
#include "engine/train/trainer_state.hpp"
#include "engine/train/utilization.hpp"
#include "engine/train/validation.hpp"

namespace wmtp {

struct StepReport {
  int64_t step = 0;
  double loss = 0;
  /// Names of contract.md. perf/communication_exposed: seconds in which a rank waited for others, mean over ranks; they
  /// are added up in the step's own exchange, so that the wait for that one counts in the next step.
  std::map<std::string, double> metrics;
  std::string skipped;             ///< why, or empty
  bool overflowed = false;         ///< skipped for the loss scale's sake: no fault, it has been lowered
  std::vector<int64_t> sequences;  ///< of the step, on this rank: for the event of a skip
  bool stop = false;               ///< some rank was asked to stop
  bool save = false;               ///< some rank wants a save after this step
  bool memory_grew = false;        ///< some rank needs more than before: worth a row in the log
};

struct TrainerData {
  const BatchSource* training = nullptr;
  const BatchSource* validation = nullptr;  ///< null: none
  int64_t validation_sequences = 0;         ///< how many of it are taken
};

/// What the models that a pipeline reads say of the data.
struct FrozenOf {
  std::vector<std::unique_ptr<FrozenCache>> training;
  std::vector<std::unique_ptr<FrozenCache>> validation = {};
};

/// What saving has to do with a step. Both are called on every rank.
struct SaveHooks {
  std::function<bool()> wanted;         ///< after this step; told to all ranks in the step's own exchange
  std::function<void()> before_update;  ///< parameters and moments change next; what it waits is no part of the step
};

class Trainer {
 public:
  Trainer(const Experiment& experiment, int64_t num_steps, ShardedModel& model, ActivePipeline& pipeline,
          FrozenOf frozen, const TrainerData& data, Channels& channels);

  int64_t num_steps() const { return num_steps_; }
  void set_num_steps(int64_t num_steps) { num_steps_ = num_steps; }
  void on_save(SaveHooks hooks) { save_ = std::move(hooks); }
  TrainerState& state() { return state_; }
  ShardedOptimizer& optimizer() { return optimizer_; }
  ShardedModel& model() { return model_; }

  StepReport step();
  /// Metrics by name (engine/train/validation.hpp); empty when there is no validation data. [all ranks, collective]
  std::map<std::string, double> validate();
  /// Of the sequences that [log] samples asks for, on rank 0; nothing where there is no validation data, or the
  /// pipeline weighs no tokens. [all ranks, collective]
  std::vector<TokenSample> sample();

 private:
  /// What is kept of the frozen models' signals for a step's micro-batches: micro-batch by micro-batch, model by model.
  struct KeptSignals {
    std::vector<std::optional<FrozenCache::Signals>> signals;
    std::vector<double>
        lacks;  ///< 1 where it is not kept; summed over ranks: whether that model is asked, on every rank
  };

  std::vector<MicroBatch> fetch() const;
  KeptSignals kept_signals(const std::vector<MicroBatch>& micros) const;
  void run_micro_batches(const std::vector<MicroBatch>& micros, KeptSignals kept, const StepScope& scope);
  StepTotals empty_totals() const;
  void exchange(StepTotals& totals, double waited_at_start);
  double norm_of_gradients(const StepTotals& totals) const;
  void refuse_faults(const StepTotals& totals);
  void judge(double norm, StepReport& report);
  void update(const StepReport& report, double lr, double norm, double scale);
  /// Of the gradients, until the optimizer takes them.
  double loss_scale() const { return state_.loss_scale ? state_.loss_scale->value() : 1.0; }
  void report_metrics(const StepTotals& totals, const std::vector<int64_t>& counts, double norm,
                      StepReport& report) const;

  const Experiment& experiment_;
  int64_t num_steps_;
  ShardedModel& model_;
  ActivePipeline& pipeline_;
  std::vector<std::unique_ptr<FrozenCache>> frozen_;
  const BatchSource& training_;
  Channels& channels_;
  TrainerState state_;
  ShardedOptimizer optimizer_;
  AcrossRanks across_;
  SaveHooks save_;
  StepEnvironment environment_;
  MicroStep micro_step_;
  double waited_after_ = 0;  ///< seconds in the last step's exchange
  Utilization utilization_;
  int64_t tokens_trained_ = 0;  ///< since this trainer was made, as seconds_trained_
  double seconds_trained_ = 0;
  std::optional<Validation> validation_;
  std::optional<Samples> samples_;
  MemoryWatch memory_watch_;
};

}  // namespace wmtp
