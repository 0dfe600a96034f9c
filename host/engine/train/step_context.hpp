// StepContext: one micro-batch on its way through the model: its data, the signals of frozen models, what the pipeline
// answered. One object per micro-batch, passed to every function that works on it, so that several can be in flight.
// It is also the wmtp::Step that the pipeline's plugin receives.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <wmtp/pipeline.hpp>

#include "engine/train/across_ranks.hpp"
#include "engine/train/step_totals.hpp"

namespace wmtp {

/// What is available at one call of the pipeline.
struct WeighContext {
  When when = When::before;
  int64_t head = 0;           ///< 1-based at token and head
  at::Tensor valid;           ///< [n] at token, [B,S] at head, [B,S,H] otherwise
  at::Tensor policy_loss;     ///< like valid, 0 where not valid; undefined before the heads
  at::Tensor policy_entropy;  ///< as the loss; undefined when it is not read
  int64_t chunk_begin = 0;    ///< token: first row of the chunk
  at::Tensor rows;            ///< token: which of [B, S-head] flattened the rows are; undefined: all
};

/// Common to all micro-batches of a run.
struct StepEnvironment {
  int64_t heads = 1;
  int64_t vocab_size = 0;
  int64_t seed = 0;
  Across& across;
  std::map<std::string, at::Tensor>& states;  ///< the plugin's named state
};

/// Common to the micro-batches of one optimizer step, or of one validation.
struct StepScope {
  int64_t number = 0;  ///< of the optimizer step, from 1
  const StepCounts& counts;
  StepTotals& totals;
};

class StepContext final : public Step {
 public:
  /// `frozen`: [B,S] by name: "reference.loss" and "reference.entropy" of the next token, "value.value". Everything
  /// passed by reference outlives this.
  StepContext(const StepEnvironment& environment, const StepScope& scope, const MicroBatch& micro,
              std::map<std::string, at::Tensor> frozen = {})
      : environment_(environment), scope_(scope), micro_(micro), frozen_(std::move(frozen)) {}

  const MicroBatch& micro_batch() const { return micro_; }
  const StepCounts& step_counts() const { return scope_.counts; }
  StepTotals& totals() const { return scope_.totals; }
  /// The policy's value heads in this micro-batch: name -> [B,S] leaf.
  void set_values(std::map<std::string, at::Tensor> leaves) { leaves_ = std::move(leaves); }
  /// The weighting's answer for all heads, at When::before and When::all.
  void set_weights(Weights weights) { weights_ = std::move(weights); }
  const Weights& weights() const { return weights_; }
  /// Before each call of the pipeline.
  void enter(WeighContext moment) { moment_ = std::move(moment); }
  /// After each call of the pipeline, which may assign anything to its state: Error(plugin) for a tensor without values
  /// that can be saved.
  void check_states() const;

  const Batch& batch() const override { return micro_.batch; }
  Across& across() override;
  int64_t number() const override { return scope_.number; }
  int64_t head() const override { return moment_.head; }
  int64_t heads() const override { return environment_.heads; }
  int64_t vocab_size() const override { return environment_.vocab_size; }
  Tensor get(const Read& read) override;
  Tensor leaf(const Read& read) override;
  Tensor valid() override { return moment_.valid; }
  Tensor counts() override;
  Tensor answers() override { return at::scalar_tensor(double(scope_.counts.answers), at::kDouble); }
  Tensor pairs() override { return at::scalar_tensor(double(scope_.counts.pairs), at::kDouble); }
  Tensor uniform(int64_t stream) override;
  Tensor& state(const std::string& name, const Tensor& first) override;
  void metric(const std::string& name, const Tensor& sum, const Tensor& count) override;

 private:
  /// The value head that a read names, or undefined.
  Tensor policy_value(const Read& read) const;
  /// Error(plugin) unless it is a dense tensor on the CPU or the batch's device.
  void check_holds_values(const Tensor& tensor, const std::string& what) const;
  /// A signal of the next token, where head k predicts the same target; 0 where not valid, shaped like valid().
  Tensor at_this_moment(const Tensor& next_token) const;

  const StepEnvironment& environment_;
  const StepScope scope_;
  const MicroBatch& micro_;
  const std::map<std::string, at::Tensor> frozen_;
  std::map<std::string, at::Tensor> leaves_;
  Weights weights_;
  WeighContext moment_;
};

}  // namespace wmtp
