// The optimizer on flat shards: every rank updates its master shards on their device. Weight decay is decoupled
// (Loshchilov & Hutter 2019); each parameter scales the learning rate. What is kept from step to step is visited in
// blocks; in memory, a block is the whole shard.
// experiment/optimizer_kind.hpp states what is kept of each parameter; optimizer/torch/muon.hpp updates the matrices
// that are orthogonalized, optimizer/torch/update_rules.hpp all other parameters.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <utility>
#include <vector>

#include "experiment/experiment.hpp"
#include "shard/parameter_group.hpp"

namespace wmtp {

/// The norm from local_norm_part of all ranks. NaN if one of them is NaN.
double combine_norm_parts(Norm norm, const std::vector<double>& parts);

/// What is kept of elements [begin, end) of a group's shard, besides the parameters. Each tensor is flat, fp32, and
/// laid out like these elements or like the end of them, where the parameters are that have it; empty if none has.
struct StateBlock {
  int64_t begin = 0, end = 0;
  at::Tensor exp_avg, exp_avg_sq;  ///< exp_avg: also the momentum of muon and sgd
  at::Tensor ema;                  ///< the moving average of the parameters

  /// Those that are not empty, with the prefixes of the logical names.
  std::vector<std::pair<const char*, at::Tensor>> flats() const;
};

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

    StateBlock whole() const { return {0, group->shard_size(), exp_avg, exp_avg_sq, ema}; }
    /// What a checkpoint contains, the masters first, with the prefixes of the logical names.
    std::vector<std::pair<const char*, at::Tensor>> flats() const;
  };
  std::vector<State>& states() { return states_; }
  /// The prefixes of what a checkpoint contains of a parameter.
  std::vector<const char*> saved_prefixes(const ParameterSpec& spec) const;

 private:
  /// What is the same for all blocks of a group in a step.
  struct GroupStep {
    at::Tensor gradient;  ///< of the whole shard, where the master is
    at::Tensor steps;     ///< state.steps as an fp32 scalar there
    double lr;
  };
  using VisitBlock = std::function<void(State& state, const StateBlock& block)>;

  State first_state(ParameterGroup& group) const;
  std::vector<at::Tensor> device_gradients() const;
  /// Visits the blocks of each of `states` in order.
  static void for_each_block(const std::vector<State*>& states, const VisitBlock& visit);
  void update(const State& state, const StateBlock& block, const GroupStep& now) const;
  void update(ParameterGroup& group, const StateBlock& block, const Segment& segment, const GroupStep& now) const;

  OptimizerConfig config_;
  double ema_;
  std::vector<State> states_;
};

}  // namespace wmtp
