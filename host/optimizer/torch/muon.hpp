// Muon (Jordan et al. 2024, github.com/KellerJordan/Muon) on sharded matrices: the update of a matrix is its momentum,
// orthogonalized by five Newton-Schulz iterations, with the size of an AdamW update (Moonlight: Liu et al. 2025,
// arXiv 2502.16982).
//
// As in Moonlight's distributed Muon, the momentum stays sharded like the parameters and is gathered only to be
// orthogonalized: every rank computes the matrices of which its shard has a part, and keeps that part. Ranks that hold
// the same shard compute different matrices and exchange the results, so that their parameters remain equal.
// Everything is computed in fp32.
#pragma once

#include <ATen/ATen.h>

#include "experiment/experiment.hpp"
#include "shard/parameter_group.hpp"

namespace wmtp {

/// A matrix with nearly the singular vectors of `matrix` and singular values between about 0.7 and 1.2.
at::Tensor orthogonalized(const at::Tensor& matrix);

/// Updates the matrices of `group` that are orthogonalized. `momentum` and `gradient` are laid out like its master
/// shard; their parts that belong to these matrices are changed. [all ranks, collective]
void step_matrices(ParameterGroup& group, at::Tensor momentum, at::Tensor gradient, const OptimizerConfig& config,
                   double lr);

}  // namespace wmtp
