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

/// This rank's gradient times `scale`, where the master is.
Tensor scaled_gradient(ParameterGroup& group, double scale) {
  Tensor gradient = group.gradient();
  if (scale != 1.0) gradient.mul_(scale);
  return group.is_in_host_memory() ? copied_to_host(gradient) : gradient;
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

std::vector<std::pair<const char*, Tensor>> StateBlock::flats() const {
  std::vector<std::pair<const char*, Tensor>> kept;
  for (const auto& [prefix, flat] :
       {std::pair{parameter_prefix, master}, {average_prefix, exp_avg}, {square_prefix, exp_avg_sq}, {ema_prefix, ema}})
    if (flat.numel() > 0) kept.emplace_back(prefix, flat);
  return kept;
}

StateBlock ShardedOptimizer::State::whole() const {
  const Tensor master = group->is_in_file() ? at::empty({0}, exp_avg.options()) : group->master();
  return {0, group->shard_size(), master, exp_avg, exp_avg_sq, ema};
}

std::vector<const char*> ShardedOptimizer::saved_prefixes(const ParameterSpec& spec) const {
  std::vector<const char*> prefixes{parameter_prefix};
  const int averages = kept_averages(config_, spec.orthogonalizes);
  if (averages > 0) prefixes.push_back(average_prefix);
  if (averages > 1) prefixes.push_back(square_prefix);
  if (ema_ > 0) prefixes.push_back(ema_prefix);
  return prefixes;
}

ShardedOptimizer::ShardedOptimizer(const OptimizerConfig& config, std::vector<ParameterGroup*> groups, double ema,
                                   const std::optional<OptimizerStateFileOptions>& file)
    : config_(config), ema_(ema) {
  const MemoryScope scope(MemoryCategory::optimizer);
  if (file && !groups.empty()) file_ = make_file(*file, groups);
  for (size_t shard = 0; shard < groups.size(); ++shard) {
    states_.push_back(first_state(*groups[shard]));
    if (!groups[shard]->is_in_file()) continue;
    groups[shard]->keep_master_in_file([file = file_, shard](bool changes, const VisitMaster& visit) {
      file->visit({{shard, /*numbers=*/1}}, changes ? BlockAccess::change : BlockAccess::read,
                  [&](size_t, int64_t, int64_t end, const std::vector<Tensor>& kept) { visit(kept.front(), end); });
    });
  }
}

/// The order is that of block_in_file.
int ShardedOptimizer::numbers_in_file(const ParameterGroup& group, StateParts parts) const {
  const int averages = parts == StateParts::all ? kept_averages(config_, /*orthogonalizes=*/false) : 0;
  return (group.is_in_file() ? 1 : 0) + (ema_ > 0 ? 1 : 0) + averages;
}

std::shared_ptr<OptimizerStateFile> ShardedOptimizer::make_file(const OptimizerStateFileOptions& options,
                                                                const std::vector<ParameterGroup*>& groups) const {
  TORCH_CHECK(!traits_of(config_.kind).orthogonalizes, "matrices that are orthogonalized are not visited in blocks");
  std::vector<KeptShard> shards;
  for (const ParameterGroup* group : groups)
    shards.push_back({group->shard_size(), numbers_in_file(*group, StateParts::all)});
  if (std::ranges::all_of(shards, [](const KeptShard& shard) { return shard.numbers == 0; })) return nullptr;
  const ParameterGroup& any = *groups.front();
  return std::make_shared<OptimizerStateFile>(options, shards,
                                              OptimizerStateFileDevice{any.device(), !any.is_in_host_memory()});
}

ShardedOptimizer::State ShardedOptimizer::first_state(ParameterGroup& group) const {
  if (file_) {
    const Tensor none = at::empty({0}, at::TensorOptions(at::kFloat).device(group.device()));
    return {&group, none, none, none};
  }
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

/// The parameters first, so that they can be visited alone.
StateBlock ShardedOptimizer::block_in_file(const ParameterGroup& group, int64_t begin, int64_t end,
                                           const std::vector<Tensor>& kept) const {
  auto next = kept.begin();
  const auto take = [&](bool is_kept) {
    return is_kept && next != kept.end() ? *next++
                                         : at::empty({0}, at::TensorOptions(at::kFloat).device(group.device()));
  };
  const int averages = kept_averages(config_, /*orthogonalizes=*/false);
  StateBlock block{begin, end, {}, {}, {}, {}};
  block.master = group.is_in_file() ? take(true) : group.master().narrow(0, begin, end - begin);
  block.ema = take(ema_ > 0);
  block.exp_avg = take(averages > 0);
  block.exp_avg_sq = take(averages > 1);
  return block;
}

void ShardedOptimizer::for_each_block(const std::vector<State*>& states, BlockAccess access, const VisitBlock& on_block,
                                      StateParts parts) {
  const auto visit = [&](State& state, const StateBlock& block) {
    on_block(state, block);
    if (access != BlockAccess::read) state.group->block_changed(block.master, block.end);
  };
  if (!file_) {
    for (State* state : states) visit(*state, state->whole());
    return;
  }
  std::vector<VisitedShard> shards;
  for (const State* state : states)
    shards.push_back({size_t(state - states_.data()), numbers_in_file(*state->group, parts)});
  file_->visit(shards, access, [&](size_t shard, int64_t begin, int64_t end, const std::vector<Tensor>& kept) {
    visit(states_[shard], block_in_file(*states_[shard].group, begin, end, kept));
  });
}

void ShardedOptimizer::step(double lr, double scale) {
  std::vector<State*> stepped;
  for (State& state : states_)
    if (state.group->gradient().defined()) stepped.push_back(&state);
  GroupStep now{{}, {}, lr};
  for_each_block(stepped, BlockAccess::change, [&](State& state, const StateBlock& block) {
    ParameterGroup& group = *state.group;
    if (block.begin == 0) {
      now.gradient = scaled_gradient(group, scale);
      now.steps = at::full({}, ++state.steps, now.gradient.options());
    }
    update(state, block, now);
    if (block.end < group.shard_size()) return;
    now.gradient.reset();
    group.drop_gradient();
  });
}

void ShardedOptimizer::update(const State& state, const StateBlock& block, const GroupStep& now) const {
  ParameterGroup& group = *state.group;
  Tensor average = block.ema;
  if (ema_ > 0 && state.steps == 1) average.copy_(block.master);
  step_matrices(group, block.exp_avg, now.gradient, config_, now.lr);  // whole: a shard with such matrices is one block
  for (const Segment& segment : group.segments())
    if (!segment.orthogonalizes) update(group, block, segment, now);
  if (ema_ > 0) average.lerp_(block.master, 1 - ema_);
}

void ShardedOptimizer::update(const ParameterGroup& group, const StateBlock& block, const Segment& segment,
                              const GroupStep& now) const {
  const int64_t begin = std::max(segment.begin, block.begin), end = std::min(segment.end, block.end);
  if (begin >= end) return;
  const auto cut = [&](const Tensor& flat, int64_t flat_end) {  // by its end, which is that of all flats of a block
    return flat.numel() == 0 ? flat : flat.narrow(0, flat.numel() - (flat_end - begin), end - begin);
  };
  update_rule(config_.kind)({cut(block.master, block.end), cut(now.gradient, group.shard_size()),
                             cut(block.exp_avg, block.end), cut(block.exp_avg_sq, block.end), now.steps,
                             now.lr * segment.lr_scale, effective_weight_decay(segment, config_)},
                            config_);
}

void ShardedOptimizer::swap_with_ema() {
  std::vector<State*> trained;  // the others are their own averages
  for (State& state : states_)
    if (state.steps > 0) trained.push_back(&state);
  const auto exchange = [](const State&, const StateBlock& block) {
    Tensor master = block.master, average = block.ema;
    const Tensor parameters = master.clone();
    master.copy_(average);
    average.copy_(parameters);
  };
  for_each_block(trained, BlockAccess::change, exchange, StateParts::parameters);
}

void ShardedOptimizer::drop_gradients() {
  for (State& state : states_) state.group->drop_gradient();
}

}  // namespace wmtp
