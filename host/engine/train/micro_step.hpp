// One micro-batch, forward and backward, as a plain loop with the same order of collectives on every rank:
//
//   forward    each trunk block: weights ready, the next one's gather started, run, the input (and without activation
//              checkpointing the small graph) kept, weights released
//   heads      value heads, then token heads one after another on the trunk's output, cut from its graph: run, loss,
//              differentiate, release; only one head's activations live at a time; their gradients add up at the
//              trunk's output
//   backward   each trunk block in reverse, down to the lowest that trains: ready, run again where it was not kept,
//              differentiate, start the reduce, release; the embedding at the end, where tied ones hold the gradient of
//              the output layer since the heads
//
// No hooks, no retained graph, never all logits.
#pragma once

#include <optional>
#include <vector>

#include "engine/shard/sharded_model.hpp"
#include "engine/train/token_loss.hpp"
#include "engine/train/value_loss.hpp"

namespace wmtp {

struct MicroStepConfig {
  double activation_checkpointing = 0;  ///< share of the trunk blocks that train, from the first
  int64_t seed = 0;
  TokenLossConfig token_loss;
};

class MicroStep {
 public:
  MicroStep(ShardedModel& model, ActivePipeline& pipeline, Channels& channels, const MicroStepConfig& config);

  /// Gradients from now on are these times what they would be; losses stay.
  void scale_gradients(double factor);

  /// `last`: the step's last micro-batch. [all ranks, collective]
  void run(StepContext& step, bool last);

  /// Unweighted losses of each head, [B,S] by source, 0 where there is no target, and the first head's hits; no
  /// gradients. An objective adds its loss and metrics to the totals. [all ranks, collective]
  std::vector<Scores> evaluate(StepContext& step);

  /// The first trunk block below which nothing trains; num_trunk_blocks when none does.
  int64_t lowest_block() const { return lowest_block_; }

  /// Each head's losses and the weights that training would give them, without gradient; the pipeline is asked as in a
  /// step. The model has token heads. [all ranks, collective]
  std::vector<WeighedLosses> weigh(StepContext& step);

  /// Throws the full story of faulty weights that the last step returned. [after the totals showed a fault]
  void refuse_faulty_weights() const { token_loss_->refuse_faulty_weights(); }
  void forget_weights() {
    if (token_loss_) token_loss_->forget_weights();
  }

 private:
  struct Kept {
    at::Tensor input, output;  ///< output only when its graph was kept
  };

  at::Tensor forward_trunk(const Batch& batch, const Pass& pass, std::vector<Kept>* kept);
  void backward_trunk(const Batch& batch, std::vector<Kept> kept, at::Tensor d_output, const Pass& pass, bool last);
  void run_heads(StepContext& step, const at::Tensor& trunk, at::Tensor& d_trunk, const Pass& pass, bool last);
  template <class Evaluate>
  void without_gradient(const Batch& batch, Evaluate evaluate);
  at::Tensor normed(const at::Tensor& hidden) const;
  at::Tensor hidden_of(int64_t head, const at::Tensor& trunk, const Pass& pass) const;
  void reduce(ShardUnit& unit, bool last);
  void finish_reduces(size_t most);
  ShardUnit* unit_after_trunk_block(int64_t block) const;

  ShardedModel& model_;
  ActivePipeline& pipeline_;
  MicroStepConfig config_;
  std::optional<TokenLoss> token_loss_;  ///< nothing when the model has no token heads
  ValueLoss value_loss_;
  int64_t lowest_block_;
  int64_t lowest_kept_;  ///< first trunk block whose graph is kept for the backward pass; those below run again
  bool embedding_trains_;
  std::vector<ShardUnit*> reducing_, reducing_in_columns_;  ///< oldest first
};

}  // namespace wmtp
