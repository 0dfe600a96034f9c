// Matrix products of a model's layers, with the fastest of LibTorch's libraries that supports them.
//
// In fp32 LibTorch calls MKL, which reaches half the speed of many processors with AVX-512. oneDNN, which LibTorch
// contains for bf16, is up to 2.4 times as fast; it is called for products that its newer kernels (brgemm) support
// (docs/decisions/0021). In bf16 and fp16, if the processor has no instructions for them, the factors are widened to
// fp32 block by block (docs/decisions/0024). With AMX, MKL computes bf16 products that stay in fp32 or
// sum over many rows (docs/decisions/0058). Everything else, and every other device, uses ATen.
#pragma once

#include <ATen/ATen.h>

namespace wmtp {

/// Whether product_into can keep the fp32 sums of products with `a`.
bool sums_in_fp32(const at::Tensor& a);

/// a [m,k] b [k,n]; views, including transposed ones, are not copied. Not differentiable.
at::Tensor product(const at::Tensor& a, const at::Tensor& b);
/// to [m,n] = a b, or += a b with `add`. `to` is contiguous and has their dtype, or fp32 if sums_in_fp32(a).
void product_into(at::Tensor to, const at::Tensor& a, const at::Tensor& b, bool add = false);
/// x [..., k] W^T with W [n,k] -> [..., n].
at::Tensor product_with_rows(const at::Tensor& x, const at::Tensor& weight);

}  // namespace wmtp
