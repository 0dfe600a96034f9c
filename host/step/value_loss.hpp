// ValueLoss: the policy's value heads on the trunk output, and the loss computed from their values by an objective, or
// by a weighting in addition to its weights.
#pragma once

#include "data/torch/batches.hpp"
#include "shard/sharded_model.hpp"
#include "step/active_pipeline.hpp"
#include "step/micro_batch_context.hpp"
#include "step/step_totals.hpp"

namespace wmtp {

class ValueLoss {
 public:
  ValueLoss(ShardedModel& model, ActivePipeline& pipeline) : model_(model), pipeline_(pipeline) {}

  /// Factor on all later gradients; the loss is unaffected.
  void scale_gradients(double factor) { factor_ = factor; }

  /// Runs the heads on the detached trunk output [B,L,D] of this rank's positions, computes the loss from the values
  /// [B,S] of all positions, and adds the loss's gradients to d_trunk, the heads and the
  /// final norm. The pipeline can read the values afterwards. The final norm must be gathered.
  void differentiate(MicroBatchContext& step, const at::Tensor& trunk, const ForwardContext& context,
                     at::Tensor& d_trunk);
  /// The loss and its metrics, without gradients.
  void evaluate(MicroBatchContext& step, const at::Tensor& trunk, const ForwardContext& context);

 private:
  std::vector<at::Tensor> outputs(const at::Tensor& trunk, const ForwardContext& context) const;
  at::Tensor loss(MicroBatchContext& step, const std::vector<at::Tensor>& leaves);
  ShardedModel& model_;
  ActivePipeline& pipeline_;
  double factor_ = 1;
};

}  // namespace wmtp
