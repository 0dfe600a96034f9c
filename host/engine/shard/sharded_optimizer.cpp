#include "engine/shard/sharded_optimizer.hpp"

#include <ATen/ops/_fused_adamw.h>

#include <algorithm>
#include <cmath>

#include "core/model/alignment.hpp"
#include "engine/memory/allocator.hpp"

namespace wmtp {

using at::Tensor;

ShardedOptimizer::ShardedOptimizer(const OptimizerConfig& config, std::vector<ParameterGroup*> groups)
    : config_(config) {
  const MemoryScope scope(MemoryCategory::optimizer);
  for (ParameterGroup* group : groups)
    states_.push_back({group, at::zeros_like(group->master()), at::zeros_like(group->master()),
                       at::zeros({}, group->master().options())});
}

Tensor ShardedOptimizer::part_of_norm(Norm norm) const {
  const double order = norm == Norm::l2 ? 2 : norm == Norm::l1 ? 1 : INFINITY;
  if (const std::vector<Tensor> gradients = device_gradients(); !gradients.empty()) {
    const std::vector<Tensor> norms = at::_foreach_norm(gradients, order, at::kDouble);
    return at::linalg_vector_norm(at::stack(norms), order).pow(norm == Norm::l2 ? 2 : 1);
  }
  Tensor part = at::zeros({}, at::kDouble);
  for (const State& state : states_) {
    const Tensor& gradient = state.group->gradient();
    if (!gradient.defined() || !state.group->is_first_replica()) continue;
    part = part.to(gradient.device());
    for (const Tensor& some : gradient.split(widened_for_norm)) {
      const Tensor of_some = at::linalg_vector_norm(some, order, std::nullopt, false, at::kDouble);
      part = norm == Norm::inf ? at::maximum(part, of_some) : part + (norm == Norm::l2 ? of_some.square() : of_some);
    }
  }
  return part;
}

/// Gradients of trained groups that count on this rank, if they are on a CUDA device.
std::vector<Tensor> ShardedOptimizer::device_gradients() const {
  std::vector<Tensor> gradients;
  for (const State& state : states_) {
    const Tensor& gradient = state.group->gradient();
    if (gradient.defined() && gradient.is_cuda() && state.group->is_first_replica()) gradients.push_back(gradient);
  }
  return gradients;
}

double norm_of_parts(Norm norm, const std::vector<double>& parts) {
  double whole = 0;
  for (const double part : parts) {
    if (std::isnan(part)) return part;
    whole = norm == Norm::inf ? std::max(whole, part) : whole + part;
  }
  return norm == Norm::l2 ? std::sqrt(whole) : whole;
}

void ShardedOptimizer::step(double lr, double scale) {
  for (State& state : states_) {
    ParameterGroup& group = *state.group;
    Tensor gradient = group.gradient();
    if (!gradient.defined()) continue;
    if (scale != 1.0) gradient.mul_(scale);
    gradient = gradient.to(group.master().device());  // the host, with offloading
    state.steps += 1;
    for (const Segment& segment : group.segments()) {
      const auto cut = [&](const Tensor& flat) {
        return std::vector<Tensor>{flat.narrow(0, segment.begin, segment.end - segment.begin)};
      };
      at::_fused_adamw_(cut(group.master()), cut(gradient), cut(state.exp_avg), cut(state.exp_avg_sq), {},
                        {state.steps}, lr * segment.lr_scale, config_.beta1, config_.beta2,
                        segment.decays ? config_.weight_decay : 0.0, config_.eps, /*amsgrad=*/false,
                        /*maximize=*/false);
    }
    group.master_changed();
    group.drop_gradient();
  }
}

void ShardedOptimizer::drop_gradients() {
  for (State& state : states_) state.group->drop_gradient();
}

}  // namespace wmtp
