// AdamW on flat shards: every rank updates its master shards on their device with LibTorch's fused kernel. Decoupled
// weight decay (Loshchilov & Hutter 2019) on the parameters that decay; each parameter scales the learning rate.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "core/experiment/experiment.hpp"
#include "engine/shard/parameter_group.hpp"

namespace wmtp {

/// The norm from part_of_norm of all ranks. NaN if one of them is NaN.
double norm_of_parts(Norm norm, const std::vector<double>& parts);

class ShardedOptimizer {
 public:
  ShardedOptimizer(const OptimizerConfig& config, std::vector<ParameterGroup*> groups);

  /// This rank's contribution to the gradient norm; each parameter counts once over all ranks. l2: sum of squares; l1:
  /// sum of magnitudes; inf: largest magnitude. fp64 scalar on the gradients' device.
  at::Tensor part_of_norm(Norm norm) const;
  /// One step with the gradients multiplied by `scale`; then releases them. Groups without a gradient are not updated.
  void step(double lr, double scale);
  void drop_gradients();

  struct State {
    ParameterGroup* group;
    at::Tensor exp_avg, exp_avg_sq;  ///< fp32, like the group's master shard
    at::Tensor steps;                ///< fp32 scalar: number of steps of this group
  };
  std::vector<State>& states() { return states_; }

 private:
  std::vector<at::Tensor> device_gradients() const;

  OptimizerConfig config_;
  std::vector<State> states_;
};

}  // namespace wmtp
