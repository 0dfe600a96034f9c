// The host's wmtp::Step: one micro-batch as the pipeline sees it, at one moment after another.
#pragma once

#include <map>
#include <string>
#include <wmtp/pipeline.hpp>

#include "data/batches.hpp"
#include "train/across_ranks.hpp"
#include "train/step_totals.hpp"

namespace wmtp {

/// What is there when the pipeline is called.
struct Moment {
  When when = When::before;
  int64_t head = 0;                               ///< 1-based at token and head
  at::Tensor valid;                               ///< [n] at token, [B,S] at head, [B,S,H] otherwise
  at::Tensor policy_loss;                         ///< like valid; undefined before the heads
  int64_t chunk_begin = 0;                        ///< token: first row of the chunk, counted over [B, S-head] flattened
  std::map<std::string, at::Tensor> leaves = {};  ///< "value:NAME" -> [B,S] leaf
};

/// What an optimizer step holds, over all ranks and micro-batches.
struct StepCounts {
  std::vector<int64_t> targets;  ///< [H]
  int64_t answers = 0;
  int64_t pairs = 0;
};

struct HostStepConfig {
  int64_t heads = 1;
  int64_t vocab_size = 0;
  int64_t seed = 0;
};

class HostStep final : public Step {
 public:
  HostStep(const HostStepConfig& config, Across& across, std::map<std::string, at::Tensor>& states)
      : config_(config), across_(across), states_(states) {}

  void begin_step(int64_t number, const StepCounts& counts, StepTotals& totals);
  /// `reference`: [B,S] losses of the next token by source, or undefined.
  void begin_micro_batch(const MicroBatch& micro, const at::Tensor& reference);
  void enter(Moment moment) { moment_ = std::move(moment); }

  const Batch& batch() const override { return micro_->batch; }
  Across& across() override { return across_; }
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
  Tensor reference_for(int64_t head) const;
  HostStepConfig config_;
  Across& across_;
  std::map<std::string, at::Tensor>& states_;
  int64_t number_ = 0;
  StepCounts counts_;
  at::Tensor reference_;
  StepTotals* totals_ = nullptr;
  const MicroBatch* micro_ = nullptr;
  Moment moment_;
};

}  // namespace wmtp
