// Matrix products of a model's layers, by the fastest of LibTorch's libraries that takes them.
//
// In fp32 LibTorch itself asks MKL, which on many processors with AVX-512 uses half of what they do. oneDNN, which
// LibTorch brings for bf16, is up to 2.4 times as fast; it is asked where its newer kernels (brgemm) take a product,
// which docs/decisions/0021 tells. In bf16 and fp16, where the processor has no instructions for them, the factors are
// widened to fp32 block by block (docs/decisions/0024). Everything else, and every other device, goes through ATen.
#pragma once

#include <ATen/ATen.h>

namespace wmtp {

/// Whether products of a are computed in fp32 though a is bf16 or fp16; product_into can then keep the fp32 sum.
bool is_widened(const at::Tensor& a);

/// a [m,k] b [k,n]; views, transposed ones too, are taken as they are. No gradient goes through it.
at::Tensor product(const at::Tensor& a, const at::Tensor& b);
/// to [m,n] = a b, or += a b where `add`. `to` is contiguous, and of their dtype, or fp32 where is_widened(a).
void product_into(at::Tensor to, const at::Tensor& a, const at::Tensor& b, bool add = false);
/// x [..., k] W^T with W [n,k] -> [..., n].
at::Tensor product_with_rows(const at::Tensor& x, const at::Tensor& weight);

}  // namespace wmtp
