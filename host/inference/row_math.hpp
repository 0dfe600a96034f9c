// The model's operations, row by row. A row holds one token's features. A row's result is bitwise the same whatever
// other rows are passed with it, with any number of threads (model/torch/kernels/products.hpp). fp32 on the CPU, no
// gradients. Shapes: n rows, D features, H heads of W features each.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdint>
#include <vector>

namespace wmtp {

/// Calls on_row(row) for n rows, on all threads if there are many.
template <class OnRow>
void for_each_row(int64_t n, OnRow on_row) {
  constexpr int64_t rows_per_task = 16;
  at::parallel_for(0, n, rows_per_task, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) on_row(row);
  });
}

/// x [n,D] times w [O,D] transposed -> [n,O]. w: fp32, or bf16 with the bits of the same values in fp32.
at::Tensor row_products(const at::Tensor& x, const at::Tensor& w);
/// Like rms_norm of model/torch/ops.hpp: x [n,D], weight [D] -> [n,D].
at::Tensor row_norms(const at::Tensor& x, const at::Tensor& weight, double eps);
/// silu(gate) * up, each [n,D] -> [n,D].
at::Tensor row_swiglu(const at::Tensor& gate, const at::Tensor& up);
/// Rotates rows x [n,H*W], row i at positions[i], like rotate of model/torch/ops.hpp.
at::Tensor row_rotated(const at::Tensor& x, const at::Tensor& rotary, const std::vector<int64_t>& positions);
/// x += bias, x [n,D], bias [D]; does nothing if the bias is undefined. Returns x.
at::Tensor with_bias(const at::Tensor& x, const at::Tensor& bias);
/// x + y, both [n,D].
at::Tensor row_add(const at::Tensor& x, const at::Tensor& y);

}  // namespace wmtp
