// The model's differentiable operations. Each saves its inputs and a handle, fetches the weight again in backward, and
// writes the weight's gradient directly into the store: weights can be released in between, and gradients are not
// copied. Shapes: x [..., D]. B batch, S positions, H attention heads, D features.
#pragma once

#include <ATen/ATen.h>

#include "experiment/experiment.hpp"
#include "model/torch/weight_store.hpp"

namespace wmtp {

/// x W^T.
at::Tensor linear(const at::Tensor& x, const WeightHandle& weight);
/// x / rms(x) * weight over the last dimension, computed in fp32 (Zhang & Sennrich 2019).
at::Tensor rms_norm(const at::Tensor& x, const WeightHandle& weight, double eps);
/// x + bias, bias [D] or [1,D].
at::Tensor add_bias(const at::Tensor& x, const WeightHandle& bias);
/// x * weight, weight [1,D].
at::Tensor scale(const at::Tensor& x, const WeightHandle& weight);
/// silu(gate) * up (Shazeer 2020).
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

/// The angles of rotary positions: [S, head_dim/2] complex64, theta^(-2i/head_dim) (Su et al. 2021) times the position,
/// scaled by `scaling` (RopeScaling in experiment/experiment.hpp).
at::Tensor rotary_table(int64_t positions, int64_t head_dim, double theta, const at::Device& device,
                        const std::optional<RopeScaling>& scaling = {});
/// Rotates the interleaved pairs (2i, 2i+1) of x [B,S,H,D], like Meta's code.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& table);

}  // namespace wmtp
