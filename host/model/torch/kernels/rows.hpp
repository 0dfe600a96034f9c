// Fused CPU kernels over rows of fp32 or bf16: each reads its inputs once, computes in fp32 and rounds once. ATen needs
// five or six passes with temporaries, which dominated a small model's step in bf16.
//
// Compiled once per instruction set (rows_impl.hpp) and selected at run time. Plain pointers, contiguous rows, no
// threads: the caller splits the rows.
#pragma once

#include <cstdint>

namespace wmtp::kernels {

struct Bf16 {
  uint16_t bits;
};

template <class T>
struct RowKernelTable {
  /// y = x * scale * w with scale[r] = 1 / sqrt(mean(x^2) + eps).
  void (*rms_norm)(const T* x, const T* w, float eps, T* y, float* scale, int64_t rows, int64_t width);
  /// dx, and dw += sum over rows of dy * x * scale (fp32 [width]; null: skipped).
  void (*rms_norm_backward)(const T* dy, const T* x, const T* w, const float* scale, T* dx, float* dw, int64_t rows,
                            int64_t width);
  /// y = silu(gate) * up.
  void (*swiglu)(const T* gate, const T* up, T* y, int64_t count);
  void (*swiglu_backward)(const T* dy, const T* gate, const T* up, T* d_gate, T* d_up, int64_t count);
  /// Rotates pairs (2i, 2i+1) of each head by the row's angles; table [width/2] of (cos, sin); direction 1 or -1. One
  /// position: `heads` heads of `width` elements.
  void (*rotate)(const T* x, const float* table, float direction, T* y, int64_t heads, int64_t width);
  /// loss[r] = log_sum[r] - logits[r][target[r]], log_sum[r] = log sum exp(logits[r]); in the same pass, if not null,
  /// entropy[r] = log_sum[r] - sum softmax(logits[r]) * logits[r], and hit[r] = 1 if no logit is larger than the
  /// target's, else 0. A target outside of [0, width) is none of these columns: an infinite loss, and no hit.
  void (*cross_entropy)(const T* logits, const int64_t* targets, float* loss, float* log_sum, float* entropy,
                        float* hit, int64_t rows, int64_t width);
  /// logits <- coefficient[r] * (exp(logits - log_sum[r]) - onehot(target[r])), which is 0 for a target outside.
  void (*cross_entropy_backward)(T* logits, const int64_t* targets, const float* log_sum, const float* coefficient,
                                 int64_t rows, int64_t width);
  /// One query of causal attention over the first `count` of `width` keys, in fp32: products x <- softmax of scale * x
  /// over those keys, 0 for the others, whose x may be anything. Returns log sum exp(scale * x).
  float (*causal_softmax)(float* x, float scale, int64_t count, int64_t width);
  /// x <- the softmax p again; d <- scale * p * (d - sum p d), the gradient of the products given that of p. Of other
  /// keys than the first `count`, x and d may be anything.
  void (*causal_softmax_backward)(float* x, float* d, float scale, float log_sum, int64_t count, int64_t width);
  /// sum = first ? value : sum + value.
  void (*accumulate)(float* sum, const T* value, bool first, int64_t count);
  /// In fp64: the sum of |x|^order for order 1 or 2; for order 0 the largest |x|, NaN if one is NaN.
  double (*norm_part)(const float* x, int order, int64_t count);
};

enum class Isa { generic, avx2, avx512, amx };

/// Whether this processor and this build support the instruction set.
bool runs(Isa isa);
/// The best one that they support, within the limits that ATEN_CPU_CAPABILITY and ONEDNN_MAX_CPU_ISA set.
Isa best_isa();
const char* name(Isa isa);

/// A specific instruction set, so that tests can compare them. Requires `runs(isa)`.
template <class T>
const RowKernelTable<T>& rows(Isa isa);

/// For best_isa().
template <class T>
const RowKernelTable<T>& rows();

}  // namespace wmtp::kernels
