// ValueLoss: the policy's value heads on the trunk's output, and the loss that an objective, or a weighting beside its
// weights, makes of what they say.
#pragma once

#include "engine/batches/batches.hpp"
#include "engine/shard/sharded_model.hpp"
#include "engine/train/active_pipeline.hpp"
#include "engine/train/step_context.hpp"
#include "engine/train/step_totals.hpp"

namespace wmtp {

class ValueLoss {
 public:
  ValueLoss(ShardedModel& model, ActivePipeline& pipeline) : model_(model), pipeline_(pipeline) {}

  /// Gradients from now on are these times what they would be; the loss stays.
  void scale_gradients(double factor) { factor_ = factor; }

  /// Runs the heads on trunk [B,S,D], cut from its graph; adds to d_trunk what the loss gives back, and to the
  /// gradients of heads and final norm; leaves the values where the pipeline reads them. Needs the final norm gathered.
  void differentiate(StepContext& step, const at::Tensor& trunk, at::Tensor& d_trunk);
  /// The loss and its metrics, without gradient.
  void evaluate(StepContext& step, const at::Tensor& trunk);

 private:
  std::vector<at::Tensor> outputs(const at::Tensor& trunk) const;
  at::Tensor loss(StepContext& step, const std::vector<at::Tensor>& leaves);
  ShardedModel& model_;
  ActivePipeline& pipeline_;
  double factor_ = 1;
};

}  // namespace wmtp
