// The host's wmtp::Step: one micro-batch as the pipeline sees it, at one moment after another.
#pragma once

#include <map>
#include <string>
#include <wmtp/pipeline.hpp>

#include "engine/batches/batches.hpp"
#include "engine/train/across_ranks.hpp"
#include "engine/train/step_counts.hpp"
#include "engine/train/step_totals.hpp"

namespace wmtp {

/// What is there when the pipeline is called.
struct WeighContext {
  When when = When::before;
  int64_t head = 0;           ///< 1-based at token and head
  at::Tensor valid;           ///< [n] at token, [B,S] at head, [B,S,H] otherwise
  at::Tensor policy_loss;     ///< like valid, 0 where not valid; undefined before the heads
  at::Tensor policy_entropy;  ///< as the loss; undefined when nobody reads it
  int64_t chunk_begin = 0;    ///< token: first row of the chunk
  at::Tensor rows;            ///< token: which of [B, S-head] flattened the rows are; undefined: all
};

struct HostStepConfig {
  int64_t heads = 1;
  int64_t vocab_size = 0;
  int64_t seed = 0;
};

class StepContext final : public Step {
 public:
  StepContext(const HostStepConfig& config, Across& across, std::map<std::string, at::Tensor>& states)
      : config_(config), across_(across), states_(states) {}

  void begin_step(int64_t number, const StepCounts& counts, StepTotals& totals);
  /// `frozen`: [B,S] by name: "reference.loss" and "reference.entropy" of the next token, "value.value".
  void begin_micro_batch(const MicroBatch& micro, std::map<std::string, at::Tensor> frozen);
  /// The policy's value heads in this micro-batch: name -> [B,S] leaf.
  void set_values(std::map<std::string, at::Tensor> leaves) { leaves_ = std::move(leaves); }
  void enter(WeighContext moment) { moment_ = std::move(moment); }
  /// After a call of the plugin, which may put anything into its state: Error(plugin) for what holds no values that
  /// could be saved.
  void check_states() const;

  const Batch& batch() const override { return micro_->batch; }
  Across& across() override;
  int64_t number() const override { return number_; }
  int64_t head() const override { return moment_.head; }
  int64_t heads() const override { return config_.heads; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  Tensor get(const Read& read) override;
  Tensor leaf(const Read& read) override;
  Tensor valid() override { return moment_.valid; }
  Tensor counts() override;
  Tensor answers() override { return at::scalar_tensor(double(counts_.answers), at::kDouble); }
  Tensor pairs() override { return at::scalar_tensor(double(counts_.pairs), at::kDouble); }
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
  HostStepConfig config_;
  Across& across_;
  std::map<std::string, at::Tensor>& states_;
  int64_t number_ = 0;
  StepCounts counts_;
  std::map<std::string, at::Tensor> frozen_, leaves_;
  StepTotals* totals_ = nullptr;
  const MicroBatch* micro_ = nullptr;
  WeighContext moment_;
};

}  // namespace wmtp
