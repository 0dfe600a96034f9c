// MicroStep: forward and backward of one micro-batch, as a plain loop with the same order of collectives on every rank:
//
//   forward    each trunk block: wait for its weights, start the next gather, run, keep the input (in host
//              memory or a file if activations are offloaded) and, if it is not to be recomputed, the block's graph;
//              release the weights
//   heads      value heads, then token heads in order, on the detached trunk output: run, loss, differentiate, release;
//              only one head's activations are live at a time; the heads' gradients are summed at the trunk output
//              chained heads: each without a graph, down to the gradient of its hidden states by its own loss; then in
//              reverse, run again, differentiate with the gradient from the next head's input, release
//              a head through which nothing trains: only its loss
//   backward   each trunk block in reverse, down to the lowest that trains: wait for its weights, recompute if its
//              graph was not kept, differentiate, start the reduce, release; last the embedding, which, if tied,
//              already holds the output layer's gradient
//
// No hooks, no retained graph, never all logits at once.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "model/reductions.hpp"
#include "shard/sharded_model.hpp"
#include "step/offloaded_stack.hpp"
#include "step/token_loss.hpp"
#include "step/value_loss.hpp"

namespace wmtp {

struct MicroStepConfig {
  double activation_checkpointing = 0;  ///< share of the trained trunk blocks, counted from the first
  bool activation_offload = false;      ///< the inputs of those blocks wait outside this memory
  std::filesystem::path offload_path;   ///< CPU: folder of their file
  int64_t seed = 0;
  TokenLossConfig token_loss;
};

class MicroStep {
 public:
  MicroStep(ShardedModel& model, ActivePipeline& pipeline, Channels& channels, const MicroStepConfig& config);

  /// Factor on all later gradients; losses are unaffected.
  void scale_gradients(double factor);

  /// `last`: the step's last micro-batch. [all ranks, collective]
  void run(StepContext& step, bool last);

  /// Unweighted losses of each head, [B,S] by source, 0 without a target, and the first head's hits; no gradients. An
  /// objective adds its loss and metrics to the totals. [all ranks, collective]
  std::vector<Scores> evaluate(StepContext& step);

  /// Each head's losses and the weights that training would use, without gradients; calls the pipeline as in a step.
  /// Requires token heads. [all ranks, collective]
  std::vector<WeighedLosses> weigh(StepContext& step);

  /// Sums [H], fp64, of each head's weights over this rank's targets, as run() will find them; calls the pipeline as in
  /// a step. Requires token heads. [all ranks, collective]
  at::Tensor weight_sums(StepContext& step);

  /// Error(plugin) with the position of the last step's faulty weights. [after the totals showed a fault]
  void refuse_faulty_weights() const { token_loss_->refuse_faulty_weights(); }
  void forget_weights() {
    if (token_loss_) token_loss_->forget_weights();
  }

 private:
  struct KeptBlock {
    at::Tensor input;   ///< undefined if offloaded
    at::Tensor output;  ///< only if its graph was kept
  };

  /// What the heads read, or its gradient; L positions on this rank.
  struct HeadInputs {
    at::Tensor trunk;  ///< [B,L,D]
    // Of the tokens; only for chained heads, the gradient only if the embedding trains:
    at::Tensor embedded;  ///< [B,L,D]
    at::Tensor next;      ///< [B,H-1,D], of the tokens after this rank's positions
  };

  /// The embeddings that head k reads if it is chained: at position i that of token i + k - 1, its target being token
  /// i + k. Undefined for others.
  static at::Tensor embedded_for(int64_t head, const HeadInputs& inputs);
  at::Tensor next_tokens(const Batch& batch) const;
  HeadInputs forward_trunk(const Batch& batch, const Pass& pass, std::vector<KeptBlock>* kept);
  void backward_trunk(const Batch& batch, std::vector<KeptBlock> kept, HeadInputs d_inputs, const Pass& pass,
                      bool last);
  void run_heads(StepContext& step, const HeadInputs& inputs, HeadInputs& d_inputs, const Pass& pass, bool last);
  void run_parallel(StepContext& step, const HeadInputs& inputs, HeadInputs& d_inputs, const Pass& pass, bool last);
  void run_chained(StepContext& step, const HeadInputs& inputs, HeadInputs& d_inputs, const Pass& pass, bool last);
  template <class Evaluate>
  void without_gradient(const MicroBatch& micro, const Pass& pass, Evaluate evaluate);
  template <class Take>
  void weigh_heads(StepContext& step, const Pass& pass, Take take);
  std::function<at::Tensor(int64_t head)> heads_in_order(const HeadInputs& inputs, const Pass& pass) const;
  at::Tensor run_head(int64_t head, const at::Tensor& input, const at::Tensor& embedded, const Pass& pass) const;
  static void add_to_embedded(int64_t head, const at::Tensor& d_embedded, HeadInputs& d_inputs);
  ShardUnit* head_unit(int64_t head) const;

  ShardedModel& model_;
  ActivePipeline& pipeline_;
  MicroStepConfig config_;
  std::optional<TokenLoss> token_loss_;  ///< nullopt if the model has no token heads
  ValueLoss value_loss_;
  BackwardExtent backward_;
  int64_t lowest_kept_;  ///< lowest trunk block whose graph is kept for backward; those below are recomputed
  std::unique_ptr<OffloadedStack> offloaded_;  ///< inputs of recomputed blocks; null if they stay in memory
  bool is_chained_;                            ///< heads 2, 3, ... read the head before
  Reductions<ShardUnit> reductions_;
};

}  // namespace wmtp
