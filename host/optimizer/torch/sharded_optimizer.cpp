#include "optimizer/torch/sharded_optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "checkpoint/manifest.hpp"
#include "memory/allocator.hpp"
#include "memory/meta_device.hpp"
#include "model/torch/row_ops.hpp"
#include "optimizer/torch/muon.hpp"
#include "optimizer/torch/update_rules.hpp"

namespace wmtp {

using at::Tensor;

namespace {

/// The elements of this rank's shard from the first parameter that Muon does not update.
int64_t size_without_matrices(const ParameterGroup& group) {
  for (const Segment& segment : group.segments())
    if (!segment.orthogonalizes) return group.shard_size() - segment.begin;
  return 0;
}

/// The largest part or the sum of the parts; NaN if one of them is NaN.
double combine_parts(Norm norm, const std::vector<double>& parts) {
  double whole = 0;
  for (const double part : parts) {
    if (std::isnan(part)) return part;
    whole = norm == Norm::inf ? std::max(whole, part) : whole + part;
  }
  return whole;
}

}  // namespace

std::vector<std::pair<const char*, Tensor>> ShardedOptimizer::State::flats() const {
  std::vector<std::pair<const char*, Tensor>> flats{{parameter_prefix, group->master()}};
  for (const auto& [prefix, flat] :
       {std::pair{average_prefix, exp_avg}, {square_prefix, exp_avg_sq}, {ema_prefix, ema}})
    if (flat.numel() > 0) flats.emplace_back(prefix, flat);
  return flats;
}

std::vector<const char*> ShardedOptimizer::saved_prefixes(const ParameterSpec& spec) const {
  std::vector<const char*> prefixes{parameter_prefix};
  const int averages = kept_averages(config_, spec.orthogonalizes);
  if (averages > 0) prefixes.push_back(average_prefix);
  if (averages > 1) prefixes.push_back(square_prefix);
  if (ema_ > 0) prefixes.push_back(ema_prefix);
  return prefixes;
}

ShardedOptimizer::ShardedOptimizer(const OptimizerConfig& config, std::vector<ParameterGroup*> groups, double ema)
    : config_(config), ema_(ema) {
  const MemoryScope scope(MemoryCategory::optimizer);
  for (ParameterGroup* group : groups) states_.push_back(first_state(*group));
}

ShardedOptimizer::State ShardedOptimizer::first_state(ParameterGroup& group) const {
  const int averages = kept_averages(config_, /*orthogonalizes=*/false);
  const auto zeros = [&](int64_t size) {
    return group.is_in_host_memory() ? host_zeros(size, at::kFloat, group.device())
                                     : at::zeros({size}, group.master().options());
  };
  const int64_t all = group.shard_size();
  return {&group, zeros(averages > 0 ? all : 0), zeros(averages > 1 ? size_without_matrices(group) : 0),
          zeros(ema_ > 0 ? all : 0)};
}

Tensor ShardedOptimizer::local_norm_part(Norm norm) const {
  const int order = norm == Norm::l2 ? 2 : norm == Norm::l1 ? 1 : 0;
  if (const std::vector<Tensor> gradients = device_gradients(); !gradients.empty()) {
    const double power = order == 0 ? INFINITY : order;
    const std::vector<Tensor> norms = at::_foreach_norm(gradients, power, at::kDouble);
    return at::linalg_vector_norm(at::stack(norms), power).pow(norm == Norm::l2 ? 2 : 1);
  }
  std::vector<double> parts;
  for (const State& state : states_) {
    const Tensor& gradient = state.group->gradient();
    if (!gradient.defined() || !state.group->is_first_replica()) continue;
    const std::vector<double> of_group = norm_parts(gradient, order);
    parts.insert(parts.end(), of_group.begin(), of_group.end());
  }
  return at::scalar_tensor(combine_parts(norm, parts), at::kDouble);
}

/// Gradients of trained groups that count on this rank, if they are on a CUDA device.
std::vector<Tensor> ShardedOptimizer::device_gradients() const {
  std::vector<Tensor> gradients;
  for (const State& state : states_) {
    const Tensor& gradient = state.group->gradient();
    if (gradient.defined() && on_cuda(gradient) && state.group->is_first_replica()) gradients.push_back(gradient);
  }
  return gradients;
}

double combine_norm_parts(Norm norm, const std::vector<double>& parts) {
  const double whole = combine_parts(norm, parts);
  return norm == Norm::l2 ? std::sqrt(whole) : whole;
}

void ShardedOptimizer::step(double lr, double scale) {
  for (State& state : states_) {
    ParameterGroup& group = *state.group;
    Tensor gradient = group.gradient();
    if (!gradient.defined()) continue;
    if (scale != 1.0) gradient.mul_(scale);
    if (group.is_in_host_memory()) gradient = copied_to_host(gradient);
    if (ema_ > 0 && state.steps == 0) state.ema.copy_(group.master());
    const Tensor steps = at::full({}, ++state.steps, group.master().options());
    step_matrices(group, state.exp_avg, gradient, config_, lr);
    for (const Segment& segment : group.segments())
      if (!segment.orthogonalizes) update(state, segment, gradient, steps, lr);
    if (ema_ > 0) state.ema.lerp_(group.master(), 1 - ema_);
    group.master_changed();
    group.drop_gradient();
  }
}

void ShardedOptimizer::update(State& state, const Segment& segment, const Tensor& gradient, const Tensor& steps,
                              double lr) {
  const int64_t end = state.group->shard_size() - segment.end;  // counted from the end, which all flats share
  const auto cut = [&](const Tensor& flat) {
    const int64_t size = segment.end - segment.begin;
    return flat.numel() == 0 ? flat : flat.narrow(0, flat.numel() - end - size, size);
  };
  update_rule(config_.kind)({cut(state.group->master()), cut(gradient), cut(state.exp_avg), cut(state.exp_avg_sq),
                             steps, lr * segment.lr_scale, effective_weight_decay(segment, config_)},
                            config_);
}

void ShardedOptimizer::swap_with_ema() {
  for (State& state : states_) {
    if (state.steps == 0) continue;  // never trained: it is its own average
    const Tensor parameters = state.group->master().clone();
    state.group->master().copy_(state.ema);
    state.ema.copy_(parameters);
    state.group->master_changed();
  }
}

void ShardedOptimizer::drop_gradients() {
  for (State& state : states_) state.group->drop_gradient();
}

}  // namespace wmtp
