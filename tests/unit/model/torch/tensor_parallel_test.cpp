// The exchanges of tensor parallelism on ranks as threads, equal to sums and products on one rank.
#include "model/torch/tensor_parallel.hpp"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "shard/group_exchange.hpp"
#include "support/plain_store.hpp"
#include "support/ranks.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;
using test::on_ranks;

Tensor numbers(at::IntArrayRef shape, double seed) {
  return (at::arange(c10::multiply_integers(shape), at::kDouble) * (0.37 + seed)).sin().to(at::kFloat).view(shape);
}

void on_tensor_ranks(int ranks, const std::function<void(const GroupExchange&)>& body) {
  on_ranks(ranks, [&](Channels& channels) {
    channels.share_sequences(1, ranks);
    body(GroupExchange(channels.tensor_group(), "positions for features"));
  });
}

TEST(GatheredPositions, AreThoseOfAllRanksAndTheirGradientIsSummed) {
  on_tensor_ranks(3, [](const GroupExchange& tensor) {
    const Tensor whole = numbers({2, 6, 4}, 1);
    Tensor mine = whole.narrow(1, 2 * tensor.rank(), 2).clone().requires_grad_(true);
    const at::AutoGradMode grad(true);
    const Tensor gathered = all_gather_positions(mine, tensor);
    EXPECT_TRUE(at::equal(gathered.detach(), whole));
    const Tensor d_whole = numbers({2, 6, 4}, 2) * double(tensor.rank() + 1);  // a part of the sum on each rank
    const Tensor d_mine = torch::autograd::grad({gathered}, {mine}, {d_whole})[0];
    const Tensor wanted = (numbers({2, 6, 4}, 2) * 6.0).narrow(1, 2 * tensor.rank(), 2);
    EXPECT_LE(distance(d_mine, wanted), 1e-6);
  });
}

TEST(SummedPositions, AreSumsAtARanksOwnPositionsAndTheirGradientIsGathered) {
  on_tensor_ranks(2, [](const GroupExchange& tensor) {
    Tensor part = (numbers({2, 8, 3}, 3) * double(tensor.rank() + 1)).requires_grad_(true);
    const at::AutoGradMode grad(true);
    const Tensor sum = reduce_scatter_positions(part, tensor);
    EXPECT_LE(distance(sum.detach(), (numbers({2, 8, 3}, 3) * 3.0).narrow(1, 4 * tensor.rank(), 4)), 1e-6);
    const Tensor d_sum = numbers({2, 8, 3}, 4).narrow(1, 4 * tensor.rank(), 4);
    EXPECT_TRUE(at::equal(torch::autograd::grad({sum}, {part}, {d_sum})[0], numbers({2, 8, 3}, 4)));
  });
}

TEST(SummedPositions, AreRoundedOnceIn16Bits) {
  on_tensor_ranks(4, [](const GroupExchange& tensor) {
    const auto part = [](int64_t rank) { return (numbers({1, 4, 64}, 5) / double(rank + 3)).to(at::kBFloat16); };
    Tensor wanted = at::zeros({1, 4, 64});
    for (int64_t rank = 0; rank < 4; ++rank) wanted += part(rank).to(at::kFloat);
    const Tensor sum = reduce_scatter_positions(part(tensor.rank()), tensor);
    EXPECT_TRUE(at::equal(sum, wanted.to(at::kBFloat16).narrow(1, tensor.rank(), 1)));
  });
}

TEST(GatheredColumns, JoinThePiecesOfAMatrix) {
  on_tensor_ranks(2, [](const GroupExchange& tensor) {
    const Tensor whole = numbers({3, 8}, 6);
    EXPECT_TRUE(at::equal(tensor.gathered(whole.narrow(1, 4 * tensor.rank(), 4)), whole));
  });
}

/// Layers cut by rows, then by columns, are one rank's layers, forward and backward.
TEST(TensorParallel, DividesAFeedForwardLayerWithItsGradients) {
  const Tensor x = numbers({2, 4, 6}, 1), up = numbers({10, 6}, 2), down = numbers({6, 10}, 3),
               d_y = numbers({2, 4, 6}, 4);
  const auto run = [](const Tensor& x, const Tensor& up, const Tensor& down) {
    return at::gelu(at::linear(x, up)).matmul(down.t());
  };
  const at::AutoGradMode grad(true);
  const std::vector<Tensor> leaves{x.clone().requires_grad_(true), up.clone().requires_grad_(true),
                                   down.clone().requires_grad_(true)};
  const Tensor y = run(leaves[0], leaves[1], leaves[2]);
  const auto wanted = torch::autograd::grad({y}, leaves, {d_y});
  on_tensor_ranks(2, [&](const GroupExchange& tensor) {
    const at::AutoGradMode grad_here(true);
    const auto mine = [&](const Tensor& whole, int64_t dimension) {
      return whole.chunk(2, dimension)[size_t(tensor.rank())].clone();
    };
    const std::vector<Tensor> own{mine(x, 1).requires_grad_(true), mine(up, 0).requires_grad_(true),
                                  mine(down, 1).requires_grad_(true)};
    const Tensor found = reduce_scatter_positions(run(all_gather_positions(own[0], tensor), own[1], own[2]), tensor);
    EXPECT_LE(distance(found.detach(), mine(y.detach(), 1)), 1e-6);
    const auto gradients = torch::autograd::grad({found}, own, {mine(d_y, 1)});
    EXPECT_LE(distance(gradients[0], mine(wanted[0], 1)), 1e-6);
    EXPECT_LE(distance(gradients[1], mine(wanted[1], 0)), 1e-6);
    EXPECT_LE(distance(gradients[2], mine(wanted[2], 1)), 1e-6);
  });
}

}  // namespace
}  // namespace wmtp
