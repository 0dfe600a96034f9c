// The optimizer on flat shards: every rank updates its master shards on their device. Weight decay is decoupled
// (Loshchilov & Hutter 2019); each parameter scales the learning rate. What is kept from step to step is visited in
// blocks; in memory, a block is the whole shard, in a file (optimizer/torch/optimizer_state_file.hpp) a part of it.
// experiment/optimizer_kind.hpp states what is kept of each parameter; optimizer/torch/muon.hpp updates the matrices
// that are orthogonalized, optimizer/torch/update_rules.hpp all other parameters.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "experiment/experiment.hpp"
#include "optimizer/torch/optimizer_state_file.hpp"
#include "shard/parameter_group.hpp"

namespace wmtp {

/// The norm from local_norm_part of all ranks. NaN if one of them is NaN.
double combine_norm_parts(Norm norm, const std::vector<double>& parts);

/// What is kept of elements [begin, end) of a group's shard. Each tensor is flat, fp32, and covers these elements or
/// the last ones of them (of exp_avg_sq, Muon keeps none for the matrices at the front); empty if none has it or it is
/// not visited.
struct StateBlock {
  int64_t begin = 0, end = 0;
  at::Tensor master;
  at::Tensor exp_avg, exp_avg_sq;  ///< exp_avg: also the momentum of muon and sgd
  at::Tensor ema;                  ///< the moving average of the parameters

  /// Those that are not empty, with the prefixes of the logical names.
  std::vector<std::pair<const char*, at::Tensor>> flats() const;
};

/// Which parts of the state are visited.
enum class StateParts { all, parameters /**< the masters and their moving averages */ };

class ShardedOptimizer {
 public:
  /// `ema`: the decay rate of the moving average of the parameters, which begins with their values before the first
  /// step; 0: none. `file`: what is kept from step to step is in a file, with the masters of groups that have none in
  /// memory, which are zeros at first; not with muon, which needs whole matrices. Error(storage) if the file cannot be
  /// created.
  ShardedOptimizer(const OptimizerConfig& config, std::vector<ParameterGroup*> groups, double ema = 0,
                   const std::optional<OptimizerStateFileOptions>& file = {});

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
    at::Tensor exp_avg, exp_avg_sq;  ///< exp_avg: also the momentum of muon and sgd; empty if in the file, as is ema
    at::Tensor ema;
    int64_t steps = 0;  ///< number of steps of this group

    /// What is in memory.
    StateBlock whole() const;
  };
  std::vector<State>& states() { return states_; }
  bool is_in_file() const { return file_ != nullptr; }  ///< all that is kept, except for masters in memory
  using VisitBlock = std::function<void(State& state, const StateBlock& block)>;
  /// Visits the blocks of each of `states` in order; groups learn of the change. [as OptimizerStateFile::visit]
  void for_each_block(const std::vector<State*>& states, BlockAccess access, const VisitBlock& on_block,
                      StateParts parts = StateParts::all);
  /// The prefixes of what a checkpoint contains of a parameter.
  std::vector<const char*> saved_prefixes(const ParameterSpec& spec) const;

 private:
  /// What is the same for all blocks of a group in a step.
  struct GroupStep {
    at::Tensor gradient;  ///< of the whole shard, where the master is
    at::Tensor steps;     ///< state.steps as an fp32 scalar there
    double lr;
  };
  std::shared_ptr<OptimizerStateFile> make_file(const OptimizerStateFileOptions& options,
                                                const std::vector<ParameterGroup*>& groups) const;
  int numbers_in_file(const ParameterGroup& group, StateParts parts) const;
  State first_state(ParameterGroup& group) const;
  std::vector<at::Tensor> device_gradients() const;
  StateBlock block_in_file(const ParameterGroup& group, int64_t begin, int64_t end,
                           const std::vector<at::Tensor>& kept) const;
  void update(const State& state, const StateBlock& block, const GroupStep& now) const;
  void update(const ParameterGroup& group, const StateBlock& block, const Segment& segment, const GroupStep& now) const;

  OptimizerConfig config_;
  double ema_;
  std::shared_ptr<OptimizerStateFile> file_;  ///< null: in memory; groups whose masters are there also use it
  std::vector<State> states_;
};

}  // namespace wmtp
