// One micro-batch, forward and backward, as a plain loop with the same order of collectives on every rank:
//
//   forward    each trunk block: weights ready, the next one's gather started, run, the input (and without activation
//              checkpointing the small graph) kept in the frame, weights released
//   heads      one after another on the trunk's output, cut from its graph: run, loss, differentiate, release; only one
//              head's activations live at a time; their gradients add up at the trunk's output
//   backward   each trunk block in reverse, down to the lowest that trains: ready, run again where it was not kept,
//              differentiate, start the reduce, release
//
// No hooks, no retained graph, never all logits.
#pragma once

#include <functional>
#include <vector>

#include "data/batches.hpp"
#include "experiment/experiment.hpp"
#include "model/linear_cross_entropy.hpp"
#include "plugin/boundary.hpp"
#include "shard/sharded_model.hpp"
#include "train/host_step.hpp"
#include "train/pipeline_in_use.hpp"
#include "train/step_totals.hpp"

namespace wmtp {

struct MicroStepConfig {
  bool activation_checkpointing = false;
  bool normalize_by_weights = false;
  int64_t gradient_accumulation = 1;
  int64_t seed = 0;
  int64_t chunk_tokens = 1024;
};

class MicroStep {
 public:
  MicroStep(ShardedModel& model, PipelineInUse& pipeline, HostStep& step, Channels& channels,
            const MicroStepConfig& config);

  /// `counts` [H]: valid targets of each head in the whole optimizer step, over all ranks. `last`: of the step.
  void run(const MicroBatch& micro, int64_t number, const std::vector<int64_t>& counts, bool last, StepTotals& totals);

  /// Unweighted losses, no gradients: adds "valid/<k>" sums over the valid tokens. [all ranks]
  void evaluate(const MicroBatch& micro, StepTotals& totals);

  /// Throws the full story of faulty weights that the last step returned. [after the totals showed a fault]
  void refuse_faulty_weights() const;
  void forget_weights() { judged_.clear(); }

 private:
  struct Kept {
    at::Tensor input, output;  ///< output only when its graph was kept
  };
  struct HeadRows {
    int64_t head;
    at::Tensor hidden, targets, valid;  ///< [N,D], [N], [N] fp32 with N = B * (S - head)
  };

  at::Tensor forward_trunk(const Pass& pass, std::vector<Kept>* frame);
  void backward_trunk(std::vector<Kept>& frame, at::Tensor d_output, const Pass& pass, bool last);
  void run_heads(const at::Tensor& trunk, at::Tensor& d_trunk, const Pass& pass, bool last, StepTotals& totals);
  void run_objective(const at::Tensor& trunk, at::Tensor& d_trunk, bool last, StepTotals& totals);
  at::Tensor all_losses(const at::Tensor& trunk, const Pass& pass);
  at::Tensor valid_of_all_heads() const;  ///< [B,S,H]
  HeadRows head_rows(int64_t head, const at::Tensor& hidden) const;
  at::Tensor head_gradient(const HeadRows& rows, const Weights& known, StepTotals& totals);
  at::Tensor coefficients(const HeadRows& rows, const at::Tensor& weights);
  Weights weigh(Moment moment, StepTotals& totals);
  at::Tensor rows_of(const Weights& weights, int64_t head) const;
  void count_weights(const at::Tensor& weights, const at::Tensor& valid, StepTotals& totals) const;
  void reduce(ShardUnit& unit, bool last);
  void finish_reduces();
  ShardUnit* unit_after_trunk_block(int64_t block) const;

  ShardedModel& model_;
  PipelineInUse& pipeline_;
  HostStep& step_;
  Channels& channels_;
  MicroStepConfig config_;
  LinearCrossEntropy loss_;
  int64_t lowest_block_;  ///< first trunk block below which nothing trains; num_trunk_blocks when none does
  bool embedding_trains_;
  const MicroBatch* micro_ = nullptr;
  std::vector<int64_t> counts_;
  std::vector<ShardUnit*> reducing_;
  std::vector<std::pair<WeightsCall, Weights>> judged_;
};

}  // namespace wmtp
