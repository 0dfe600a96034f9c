// The model's arithmetic, a row at a time. A row is one token's numbers; what comes of it has the same bits whatever
// rows stand beside it, and however many threads there are (kernels/products.hpp). fp32 on the CPU, no gradients.
// Shapes: n rows, D features, H heads of W features each.
#pragma once

#include <ATen/ATen.h>

namespace wmtp {

/// x [n,D] times w [O,D] transposed -> [n,O].
at::Tensor row_products(const at::Tensor& x, const at::Tensor& w);
/// As rms_norm of engine/model/ops.hpp: x [n,D], weight [D] -> [n,D].
at::Tensor row_norms(const at::Tensor& x, const at::Tensor& weight, double eps);
/// silu(gate) * up, each [n,D] -> [n,D].
at::Tensor row_swiglu(const at::Tensor& gate, const at::Tensor& up);
/// Rows x [n,H*W] at positions `position`, position + 1, ... turned as rotate of engine/model/ops.hpp turns them.
at::Tensor row_rotated(const at::Tensor& x, const at::Tensor& rotary, int64_t position);
/// x += bias, x [n,D], bias [D]; nothing where the bias is undefined. Gives x back.
at::Tensor with_bias(const at::Tensor& x, const at::Tensor& bias);
/// x += y, both [n,D].
void add_rows(const at::Tensor& x, const at::Tensor& y);

}  // namespace wmtp
