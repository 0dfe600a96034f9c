// Exchanges of tensor parallelism (Shoeybi et al. 2019, arXiv 1909.08053) with a residual stream that is divided by
// positions (Korthikanti et al. 2022, arXiv 2205.05198). Before the layers that are cut by rows (dimension 0 of W
// [out,in]: PyTorch's ColwiseParallel), T ranks gather their positions, and each computes a part of the features at
// all of them; layers that are cut by columns give a part of a sum over the features, which the ranks exchange and
// add, each for its own positions. Both are differentiable, and each is the other's backward pass. Sums are computed
// in fp32, in rank order: bitwise the same in every run.
#pragma once

#include <ATen/ATen.h>

#include "model/torch/rank_exchange.hpp"

namespace wmtp {

/// [B,n,D] of each rank -> [B,T*n,D] on all of them. [all T ranks, collective, also in backward]
at::Tensor all_gather_positions(const at::Tensor& x, const RankExchange& tensor);
/// [B,T*n,D], this rank's part of the sum -> [B,n,D], the sum at this rank's positions. [all T ranks, collective, also
/// in backward]
at::Tensor reduce_scatter_positions(const at::Tensor& part, const RankExchange& tensor);
/// [T,...], for each rank a part of its sum -> the sum of the parts that this rank receives. Not differentiable. [all T
/// ranks, collective]
at::Tensor reduce_scatter(const at::Tensor& by_rank, const RankExchange& ranks);

}  // namespace wmtp
