// The optimizer on flat shards: every rank updates its master shards on their device. Weight decay is decoupled
// (Loshchilov & Hutter 2019); each parameter scales the learning rate.
// experiment/optimizer_kind.hpp states what is kept of each parameter; optimizer/torch/muon.hpp updates the matrices
// that are orthogonalized, optimizer/torch/update_rules.hpp all other parameters.
#pragma once

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "experiment/experiment.hpp"
#include "shard/parameter_group.hpp"

namespace wmtp {

/// The norm from local_norm_part of all ranks. NaN if one of them is NaN.
double combine_norm_parts(Norm norm, const std::vector<double>& parts);

class ShardedOptimizer {
 public:
  /// `ema`: the decay rate of the moving average of the parameters, which begins with their values before the first
  /// step; 0: none.
  ShardedOptimizer(const OptimizerConfig& config, std::vector<ParameterGroup*> groups, double ema = 0);

  /// This rank's contribution to the gradient norm; each parameter counts once over all ranks. l2: sum of squares; l1:
  /// sum of magnitudes; inf: largest magnitude. fp64 scalar on the gradients' device.
  at::Tensor local_norm_part(Norm norm) const;
  /// One step with the gradients multiplied by `scale`; then releases them. Groups without a gradient are not updated.
  /// [all ranks; collective for muon]
  void step(double lr, double scale);
  void drop_gradients();
  /// Exchanges the parameters with their moving averages.
  void swap_with_ema();

  /// Each fp32 and laid out like the group's master shard, or like the end of it, where the parameters are that have
  /// it.
  struct State {
    ParameterGroup* group;
    at::Tensor exp_avg, exp_avg_sq;  ///< exp_avg: also the momentum of muon and sgd
    at::Tensor ema;
    int64_t steps = 0;  ///< number of steps of this group

    /// What a checkpoint contains, the masters first, with the prefixes of the logical names.
    std::vector<std::pair<const char*, at::Tensor>> flats() const;
  };
  std::vector<State>& states() { return states_; }
  /// The prefixes of what a checkpoint contains of a parameter.
  std::vector<const char*> saved_prefixes(const ParameterSpec& spec) const;

 private:
  State first_state(ParameterGroup& group) const;
  std::vector<at::Tensor> device_gradients() const;
  /// `steps`: state.steps as an fp32 scalar on the device of the master.
  void update(State& state, const Segment& segment, const at::Tensor& gradient, const at::Tensor& steps, double lr);

  OptimizerConfig config_;
  double ema_;
  std::vector<State> states_;
};

}  // namespace wmtp
