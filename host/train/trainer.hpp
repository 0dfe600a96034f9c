// Trainer: runs optimizer steps.
//
// step():
//   1. fetch the step's micro-batches and count their targets over all ranks
//   2. forward and backward of each
//   3. one exchange of all sums: losses, metrics, gradient norm, stop requests; with several sections of the model, one
//      among the ranks of a section, and one among all ranks
//   4. the same decision on every rank: refuse faulty weights, skip, or clip, update and keep the losses
//   5. report
// The host reads device values once per step, plus once per head if a pipeline drops tokens and does not state a bound
// on their number.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/torch/batches.hpp"
#include "experiment/experiment.hpp"
#include "memory/allocator.hpp"
#include "optimizer/torch/sharded_optimizer.hpp"
#include "shard/sharded_model.hpp"
#include "step/active_pipeline.hpp"
#include "step/frozen_signals.hpp"
#include "step/step_runner.hpp"
#include "train/samples.hpp"
#include "train/trainer_state.hpp"
#include "train/utilization.hpp"
#include "train/validation.hpp"

namespace wmtp {

struct StepReport {
  int64_t step = 0;
  double loss = 0;
  bool measured_loss = true;  ///< false if the step had no target, so that its loss is a sum over nothing
  /// perf/communication_exposed: seconds in which a rank waited for others, mean over ranks. Summed in the step's
  /// exchange, so the wait for that exchange counts in the next step.
  std::map<std::string, double> metrics;
  std::string skipped;             ///< the reason, or empty
  bool overflowed = false;         ///< skipped due to an fp16 overflow; the loss scale has been lowered
  std::vector<int64_t> sequences;  ///< of the step on this rank, for the event about a skip
  bool stop = false;               ///< whether any rank received a stop signal
  bool save = false;               ///< whether any rank requests a save after this step
  bool memory_grew = false;        ///< whether any rank needs more memory than before, which is then logged
};

struct TrainerData {
  const BatchSource* training = nullptr;
  const BatchSource* validation = nullptr;  ///< null: none
  int64_t validation_sequences = 0;         ///< number used, from the beginning
};

/// Signals of the frozen models that a pipeline reads, per data set.
struct FrozenCaches {
  FrozenSignals::Models training;
  FrozenSignals::Models validation = {};
};

/// Called in each step on every rank.
struct SaveHooks {
  std::function<bool()> wanted;         ///< whether to save after this step; combined over ranks in the step's exchange
  std::function<void()> before_update;  ///< called before parameters and moments change; not part of the step's time
};

class Trainer {
 public:
  Trainer(const Experiment& experiment, int64_t num_steps, ShardedModel& model, ActivePipeline& pipeline,
          FrozenCaches frozen, const TrainerData& data, Channels& channels);

  int64_t num_steps() const { return num_steps_; }
  void set_num_steps(int64_t num_steps) { num_steps_ = run_context_.total_steps = num_steps; }
  void on_save(SaveHooks hooks) { save_ = std::move(hooks); }
  TrainerState& state() { return state_; }
  ShardedOptimizer& optimizer() { return optimizer_; }
  ShardedModel& model() { return model_; }

  StepReport step();
  /// Metrics by name (train/validation.hpp); empty without validation data. [all ranks, collective]
  std::map<std::string, double> validate();
  /// Samples of the first [log] samples sequences, on rank 0; empty without validation data or without a weighting.
  /// [all ranks, collective]
  std::vector<TokenSample> sample();

 private:
  std::vector<MicroBatch> fetch() const;
  /// The totals of this section's ranks, and those of the job.
  std::pair<StepTotals, StepTotals> accumulate(const std::vector<MicroBatch>& micros, const StepCounts& counts,
                                               const FrozenSignals& frozen, const at::Tensor& weight_sums,
                                               double waited_at_start);
  at::Tensor weight_sums(const std::vector<MicroBatch>& micros, const StepCounts& counts, const FrozenSignals& frozen);
  FrozenCache::Signals known_signals(const std::vector<MicroBatch>& micros, size_t i, const FrozenSignals& frozen);
  void run_micro_batches(const std::vector<MicroBatch>& micros, const FrozenSignals& frozen,
                         const StepContext& step_context);
  StepTotals empty_totals() const;
  /// Whether the step compares its heads ([log] heads_every_steps).
  bool compares_heads() const;
  void exchange(StepTotals& totals, double waited_at_start);
  /// Over all ranks of the job, the totals that decide how the step ends. With one section they are `totals`.
  StepTotals job_totals(const StepTotals& totals) const;
  double gradient_norm(const StepTotals& job) const;
  /// Of all heads, in all sections.
  bool has_finite_losses(const StepTotals& totals, const StepTotals& job) const;
  void refuse_unsaved_state() const;
  bool trains_anything(int64_t head) const;
  void refuse_faults(const StepTotals& job);
  void judge(double norm, StepReport& report);
  void update(const StepReport& report, double lr, double norm, double scale);
  /// The factor on the gradients until the optimizer step.
  double loss_scale() const { return state_.loss_scale ? state_.loss_scale->value() : 1.0; }
  void report_metrics(const StepTotals& totals, const StepCounts& counts, double norm, double scale,
                      StepReport& report) const;

  const Experiment& experiment_;
  int64_t num_steps_;
  ShardedModel& model_;
  ActivePipeline& pipeline_;
  FrozenSignals::Models frozen_;
  const BatchSource& training_;
  Channels& channels_;
  TrainerState state_;
  ShardedOptimizer optimizer_;
  RankCollectives collectives_;
  SaveHooks save_;
  RunContext run_context_;
  StepRunner step_runner_;
  double waited_after_ = 0;  ///< seconds waited in the last step's exchange
  StepOperations operations_;
  Utilization utilization_;
  double peak_rate_;            ///< operations per second of a rank's device; 0: unknown
  int64_t tokens_trained_ = 0;  ///< by this trainer; the same for seconds_trained_
  double seconds_trained_ = 0;
  std::optional<Validation> validation_;
  std::optional<Samples> samples_;
  MemoryWatch memory_watch_;
};

}  // namespace wmtp
