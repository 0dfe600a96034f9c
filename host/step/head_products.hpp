// How the heads of a model disturb each other: the inner products of their gradients at the trunk's output,
//
//   G[j][k] = sum over positions of <g_j, g_k>,   g_k: the gradient of head k's own loss, as it is added to the trunk's
//
// Positions are those of all micro-batches and ranks. Products are taken at the same position only, so G is the same
// sum however sequences are distributed.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "step/step_totals.hpp"

namespace wmtp {

/// Elements of each gradient that products of gradients have in fp64 at a time.
inline constexpr int64_t elements_in_fp64 = int64_t{1} << 17;

/// Zero for the products of `heads` heads, because all ranks must exchange the same names.
void add_empty_head_products(int64_t heads, StepTotals& totals);

/// Adds the products of a micro-batch. `gradients`: [B,L,D] of each head at this rank's positions; undefined for one
/// that sends none. The sums are in fp64 and in a fixed order.
void add_head_products(const std::vector<at::Tensor>& gradients, StepTotals& totals);

/// heads/norm_K: sqrt(G[k][k]) / scale; heads/cosine_J_K, J < K: G[j][k] / sqrt(G[j][j] G[k][k]), absent where one of
/// the gradients is zero. Empty if the totals have no products. `scale`: the factor on the gradients. [after the
/// exchange]
std::map<std::string, double> head_metrics(int64_t heads, const StepTotals& totals, double scale);

}  // namespace wmtp
