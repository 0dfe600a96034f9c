// Matrix products in which a row's bits do not depend on the other rows: each sum uses the same operations in the same
// order for one row or many. BLAS does not guarantee that: it computes one row differently from several. So a decoder's
// result for a token does not depend on how many tokens are computed together.
//
// Compiled once per instruction set (products_impl.hpp) and selected together with the other row kernels. Plain
// pointers, contiguous rows, no threads. fp32; weights may also be bf16, and give the bits of the same weights in fp32.
#pragma once

#include <cstdint>

#include "model/torch/kernels/rows.hpp"

namespace wmtp::kernels {

/// Output columns computed together; a caller that splits columns must split at multiples of this.
inline constexpr int64_t columns_per_block = 8;

/// A cache of a text, in pages of keys_per_panel (model/chunks.hpp) positions.
struct Pages {
  const float* base;
  const int64_t* numbers;  ///< of the text's pages, in order
  int64_t stride;          ///< floats from one number to the next
  const float* operator[](int64_t i) const { return base + numbers[i] * stride; }
};

struct Products {
  /// y[r][o] = sum_i x[r][i] * w[o][i]: x [rows,width], w [outs,width]; y has `stride` floats per row. The order of
  /// summation depends only on `width`.
  void (*times_transposed)(const float* x, const float* w, float* y, int64_t rows, int64_t outs, int64_t width,
                           int64_t stride);
  void (*times_transposed_bf16)(const float* x, const Bf16* w, float* y, int64_t rows, int64_t outs, int64_t width,
                                int64_t stride);
  /// scores[j] = sum_i x[i] * keys[j][i] for all keys of the pages that hold keys first … end-1: pages
  /// [width][keys_per_panel]. The order of summation depends only on `width`.
  void (*score)(const float* x, const Pages& keys, int64_t width, int64_t first, int64_t end, float* scores);
  /// y[i] = sum_j probs[j] * values[j][i], j from first to end-1: pages [keys_per_panel][width]. The order of summation
  /// depends only on `width`, `first` and `end`.
  void (*mix)(const float* probs, const Pages& values, int64_t width, int64_t first, int64_t end, float* y);
};

/// A specific instruction set, so that tests can compare them. Requires `runs(isa)`.
const Products& products(Isa isa);
/// For best_isa().
const Products& products();

}  // namespace wmtp::kernels
