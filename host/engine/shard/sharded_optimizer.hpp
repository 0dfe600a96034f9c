// AdamW on flat shards: every rank steps the part whose master it holds, where that lies, with LibTorch's fused kernel. Decoupled weight
// decay (Loshchilov & Hutter 2019) on the parameters that decay, at each one's own part of the learning rate.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "core/experiment/experiment.hpp"
#include "engine/shard/parameter_group.hpp"

namespace wmtp {

/// From what part_of_norm says on every rank. NaN where one of them is.
double norm_of_parts(Norm norm, const std::vector<double>& parts);

class ShardedOptimizer {
 public:
  ShardedOptimizer(const OptimizerConfig& config, std::vector<ParameterGroup*> groups);

  /// What this rank's gradients are to the norm of all, each parameter once over the ranks; fp64 scalar where they lie:
  /// of l2 the sum of squares, of l1 the sum of magnitudes, of inf the largest magnitude.
  at::Tensor part_of_norm(Norm norm) const;
  /// One step with gradients times `scale` (clipping), then drops the gradients. Groups without a gradient stay.
  void step(double lr, double scale);
  void drop_gradients();

  struct State {
    ParameterGroup* group;
    at::Tensor exp_avg, exp_avg_sq;  ///< fp32, like the group's master shard
    at::Tensor steps;                ///< fp32 scalar: steps this group has made
  };
  std::vector<State>& states() { return states_; }

 private:
  OptimizerConfig config_;
  std::vector<State> states_;
};

}  // namespace wmtp
