// StepRunner: forward and backward of a step's micro-batches. Each is a plain loop with the same order of collectives
// on every rank:
//
//   forward    each trunk block: wait for its weights, start the next gather, run, keep the input (in host
//              memory or a file if activations are offloaded) and, if it is not to be recomputed, the block's graph;
//              release the weights
//   heads      value heads, then token heads in order, on the detached trunk output: run, loss, differentiate, release;
//              only one head's activations are live at a time; the heads' gradients are summed at the trunk output
//              chained heads: each without a graph, down to the gradient of its hidden states by its own loss; then in
//              reverse, run again, differentiate with the gradient from the next head's input, release; heads that
//              share a block gather it once and reduce its gradient after the first of them
//              in a step that compares heads, each one's own gradient is also kept until all exist
//              a weighting that reads how heads align: before all of this, each head's own gradient at the trunk's
//              output, of which two are live at a time (chained heads: all), and no gradient of a weight
//              a head through which nothing trains: only its loss
//   backward   each trunk block in reverse, down to the lowest that trains: wait for its weights, recompute if its
//              graph was not kept, differentiate, start the reduce, release; last the embedding, which, if tied,
//              already holds the output layer's gradient
//
// With sections (parallel.pipeline), each has its part of these loops: its input comes over a border and its output
// goes over the next, gradients the other way, in 1F1B order (run). An embedding that heads read is in two sections,
// whose gradients are added after the last micro-batch. No hooks, never all logits at once, no retained graph
// but that of a chained head in a step that compares heads.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "model/reductions.hpp"
#include "shard/sharded_model.hpp"
#include "step/border.hpp"
#include "step/head_alignment.hpp"
#include "step/head_inputs.hpp"
#include "step/offloaded_stack.hpp"
#include "step/token_loss.hpp"
#include "step/value_loss.hpp"

namespace wmtp {

struct StepRunnerConfig {
  double activation_checkpointing = 0;  ///< share of the trained trunk blocks, counted from the first
  bool activation_offload = false;      ///< the inputs of those blocks wait outside this memory
  std::filesystem::path offload_path;   ///< CPU: folder of their file
  int64_t seed = 0;
  bool detach_heads = false;  ///< the gradients of heads 2 and up end at what they read of trunk, head 1 and embedding
  TokenLossConfig token_loss;
};

class StepRunner {
 public:
  StepRunner(ShardedModel& model, ActivePipeline& pipeline, Channels& channels, const StepRunnerConfig& config);

  /// Factor on all later gradients; losses are unaffected.
  void scale_gradients(double factor);

  /// All micro-batches of a step, each opened by its index before its forward pass. With K sections after this one,
  /// forward runs K micro-batches ahead of backward, and at most K + 1 are in flight (1F1B, Narayanan et al. 2021,
  /// arXiv 2104.04473): with K = 1 and three of them, forward 0 and 1, backward 0, forward 2, backward 1 and 2. [all
  /// ranks of all sections, collective]
  using OpenStep = std::function<std::unique_ptr<MicroBatchContext>(size_t)>;
  void run(const std::vector<MicroBatch>& micros, const OpenStep& open);

  /// Unweighted losses and hits of each head, [B,S] by source, 0 without a target; no gradients. An objective adds its
  /// loss and metrics to the totals. Empty in sections without the heads. [all ranks, collective]
  std::vector<Scores> evaluate(MicroBatchContext& step);

  /// Each head's losses and the weights that training would use, without gradients; calls the pipeline as in a step.
  /// Requires token heads; empty in sections without them. Call forget_weights() afterwards. [all ranks, collective]
  std::vector<WeighedLosses> weigh(MicroBatchContext& step);

  /// How the heads' gradients at the trunk's output align with head 1's, [B,S,H] by source, in a step that consists of
  /// this micro-batch: of the losses that training would use, but without dropout. Calls the pipeline as in a step;
  /// adds to no gradient. Requires token heads; undefined in sections without them. Call forget_weights() afterwards.
  /// [all ranks, collective]
  HeadAlignment align(MicroBatchContext& step);

  /// Sums [H], fp64, of each head's weights over this rank's targets, as run() will find them; calls the pipeline as in
  /// a step. Requires token heads; undefined in sections without them. [all ranks, collective]
  at::Tensor weight_sums(MicroBatchContext& step);

  /// Error(plugin) with the position of faulty weights since forget_weights(), if there are any on this rank.
  void refuse_faulty_weights() const { token_loss_->refuse_faulty_weights(); }
  void forget_weights() {
    if (token_loss_) token_loss_->forget_weights();
  }

 private:
  struct KeptBlock {
    at::Tensor input;   ///< undefined if offloaded
    at::Tensor output;  ///< only if its graph was kept
  };

  /// A micro-batch of which this section has run forward, and not yet backward.
  struct InFlight {
    MicroBatchContext& step;
    ForwardContext context;
    OffloadedStack* offloaded;  ///< null: inputs stay in memory
    HeadInputs inputs = {};     ///< of the last section; else its output
    std::vector<KeptBlock> kept = {};
  };
  InFlight begun(MicroBatchContext& step, size_t index) const;
  /// The section's output, undefined in the last one. `input`: undefined in the first section.
  at::Tensor forward(InFlight& micro, const at::Tensor& input);
  /// The gradient of the section's input, undefined if nothing before it trains. `d_output`: undefined in the last
  /// section, which runs the heads first.
  at::Tensor backward(InFlight& micro, const at::Tensor& d_output, bool last);
  /// [B,L,D] of a micro-batch at a border.
  std::vector<int64_t> hidden_shape(const MicroBatch& micro) const;
  /// Whether gradients cross the border before, or after, this section.
  bool trains_before() const { return backward_.lowest_block() < model_.blocks().first; }
  bool trains_up_to_here() const { return backward_.lowest_block() < model_.blocks().end; }

  HeadInputs forward_trunk(const Batch& batch, const ForwardContext& context, const at::Tensor& input,
                           OffloadedStack* offloaded, std::vector<KeptBlock>* kept);
  at::Tensor backward_trunk(InFlight& micro, HeadInputs d_inputs, bool last);
  void backward_embedding(const Batch& batch, at::Tensor d_trunk, const HeadInputs& d_heads, bool last);
  void run_heads(MicroBatchContext& step, const HeadInputs& inputs, HeadInputs& d_inputs, const ForwardContext& context,
                 bool last);
  void run_parallel(MicroBatchContext& step, const HeadInputs& inputs, HeadInputs& d_inputs,
                    const ForwardContext& context, bool last);
  void run_chained(MicroBatchContext& step, const HeadInputs& inputs, HeadInputs& d_inputs,
                   const ForwardContext& context, bool last);
  ForwardContext evaluation_context(const MicroBatch& micro) const;
  template <class Evaluate>
  void without_gradient(const MicroBatch& micro, const ForwardContext& context, Evaluate evaluate);
  template <class Evaluate>
  void after_weighing(MicroBatchContext& step, const ForwardContext& context, Evaluate evaluate);
  std::function<at::Tensor(int64_t head)> heads_in_order(const HeadInputs& inputs, const ForwardContext& context) const;
  struct HeadOutput {
    at::Tensor output, hidden;  // before the final norm, as the next chained head reads it, and after it
  };
  /// `graph`: whether it can be differentiated. `input`: what the head's block reads.
  HeadOutput run_head(int64_t head, const at::Tensor& input, const at::Tensor& embedded, const ForwardContext& context,
                      bool graph) const;
  void read_alignment(MicroBatchContext& step, const HeadInputs& inputs, const ForwardContext& context);
  /// The gradient of a head's loss with respect to its hidden states [B,L,D].
  using HiddenGradient = std::function<at::Tensor(int64_t head, const at::Tensor& hidden)>;
  HeadAlignment aligned(const HeadInputs& inputs, const ForwardContext& context, const HiddenGradient& of_hidden) const;
  std::vector<at::Tensor> chained_gradients(const HeadInputs& inputs, const ForwardContext& context,
                                            const HiddenGradient& of_hidden) const;
  /// What the own losses of heads k to H send to a head's input, from what those of the later ones send to its output.
  /// Keeps the graph and adds nothing to gradients of weights.
  static std::vector<at::Tensor> own_gradients(const at::Tensor& hidden, const at::Tensor& d_hidden,
                                               const at::Tensor& output, const std::vector<at::Tensor>& of_later,
                                               const at::Tensor& input);
  static void add_to_embedded(int64_t head, const at::Tensor& d_embedded, HeadInputs& d_inputs);
  ShardUnit* head_unit(int64_t head) const;

  ShardedModel& model_;
  ActivePipeline& pipeline_;
  StepRunnerConfig config_;
  std::optional<TokenLoss> token_loss_;  ///< nullopt if the model has no token heads
  ValueLoss value_loss_;
  BackwardExtent backward_;
  int64_t lowest_kept_;  ///< lowest trunk block whose graph is kept for backward; those below are recomputed
  /// Inputs of recomputed blocks, of each micro-batch in flight; empty if they stay in memory.
  std::vector<std::unique_ptr<OffloadedStack>> offloaded_;
  Border previous_border_, next_border_;
  bool is_chained_;  ///< heads 2, 3, ... read the head before
  Reductions<ShardUnit> reductions_;
};

}  // namespace wmtp
