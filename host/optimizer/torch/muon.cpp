#include "optimizer/torch/muon.hpp"

#include <algorithm>
#include <cmath>

#include "memory/allocator.hpp"
#include "model/torch/matrix_product.hpp"

namespace wmtp {
namespace {

using at::Tensor;

/// The part of a matrix in this rank's shard.
struct Part {
  const FlatParameter* matrix;
  int64_t begin, count;  ///< elements of the matrix
  Tensor master;
};

std::vector<Part> matrix_parts(ParameterGroup& group) {
  std::vector<Part> parts;
  group.for_each_part(group.master(), [&](const FlatParameter& placed, int64_t begin, const Tensor& part) {
    if (placed.spec.orthogonalizes) parts.push_back({&placed, begin, part.numel(), part});
  });
  return parts;
}

/// The momentum, then Nesterov's look-ahead in place of the gradient.
void update_momentum(ParameterGroup& group, const Tensor& momentum, const Tensor& gradient, double decay) {
  for (const Segment& segment : group.segments()) {
    if (!segment.orthogonalizes) continue;
    Tensor now = gradient.narrow(0, segment.begin, segment.end - segment.begin);
    Tensor mean = momentum.narrow(0, segment.begin, segment.end - segment.begin);
    mean.lerp_(now, 1 - decay);
    now.lerp_(mean, decay);
  }
}

/// This rank's part of a matrix's update. `pieces`: of all tensor ranks (ParameterGroup::gather_pieces).
Tensor local_update(const Part& part, const Tensor& pieces, int64_t tensor_rank) {
  const FlatParameter& matrix = *part.matrix;
  Tensor update = orthogonalized(ParameterGroup::joined(matrix, pieces));
  if (!matrix.piece.is_whole()) update = update.chunk(pieces.size(0), matrix.piece.dimension())[size_t(tensor_rank)];
  return update.reshape({-1}).narrow(0, part.begin, part.count);
}

void apply(const Part& part, const Tensor& update, const OptimizerConfig& config, double lr) {
  const ParameterSpec& spec = part.matrix->spec;
  const double rate = lr * spec.lr_scale, decay = effective_weight_decay(spec, config);
  Tensor master = part.master;
  if (decay != 0) master.mul_(1 - rate * decay);
  master.add_(update.to(master.device()), -rate * 0.2 * std::sqrt(double(std::max(spec.shape[0], spec.shape[1]))));
}

}  // namespace

Tensor orthogonalized(const Tensor& matrix) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315, smallest_norm = 1e-7;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  Tensor x = (is_tall ? matrix.t() : matrix) / matrix.norm().clamp_min(smallest_norm);
  for (int i = 0; i < 5; ++i) {
    const Tensor gram = product(x, x.t());
    const Tensor factor = product(gram, gram).mul_(c).add_(gram, b);
    x = product(factor, x).add_(x, a);
  }
  return is_tall ? x.t() : x;
}

void step_matrices(ParameterGroup& group, Tensor momentum, Tensor gradient, const OptimizerConfig& config, double lr) {
  const auto& all = group.parameters();
  if (std::none_of(all.begin(), all.end(), [](const FlatParameter& placed) { return placed.spec.orthogonalizes; }))
    return;
  update_momentum(group, momentum, gradient, config.momentum);
  const MemoryScope scope(MemoryCategory::communication);
  const Tensor whole = group.gather_pieces(group.gather_shards(gradient));
  const int64_t tensor_rank = group.tensor_rank();
  const std::vector<Part> parts = matrix_parts(group);
  const RankGroup& replicas = group.mesh().replicate;
  const auto size = size_t(replicas.size);
  for (size_t first = 0; first < parts.size(); first += size) {
    const size_t end = std::min(first + size, parts.size()), mine = first + size_t(replicas.rank);
    if (size == 1) {
      apply(parts[mine], local_update(parts[mine], whole, tensor_rank), config, lr);
      continue;
    }
    int64_t longest = 0;
    for (size_t i = first; i < end; ++i) longest = std::max(longest, parts[i].count);
    const Tensor sent = at::zeros({longest}, whole.options());
    if (mine < end) sent.narrow(0, 0, parts[mine].count).copy_(local_update(parts[mine], whole, tensor_rank));
    const Tensor updates = at::empty({replicas.size * longest}, whole.options());
    replicas.reduce_channel->all_gather(updates, sent, "sharing updates of " + group.name()).wait();
    for (size_t i = first; i < end; ++i)
      apply(parts[i], updates.narrow(0, int64_t(i - first) * longest, parts[i].count), config, lr);
  }
}

}  // namespace wmtp
