// Matrix products in which a row's bits do not depend on the other rows: each sum uses the same operations in the same
// order for one row or many. BLAS does not guarantee that: it computes one row differently from several. So a decoder's
// result for a token does not depend on how many tokens are computed together.
//
// Compiled once per instruction set (products_impl.hpp) and selected together with the other row kernels. fp32, plain
// pointers, contiguous rows, no threads.
#pragma once

#include <cstdint>

#include "engine/model/kernels/rows.hpp"

namespace wmtp::kernels {

/// Output columns computed together; a caller that splits columns must split at multiples of this.
inline constexpr int64_t columns_of_block = 8;

struct Products {
  /// y[r][o] = sum_i x[r][i] * w[o][i]: x [rows,width], w [outs,width]; y has `stride` floats per row. The order of
  /// summation depends only on `width`.
  void (*times_transposed)(const float* x, const float* w, float* y, int64_t rows, int64_t outs, int64_t width,
                           int64_t stride);
  /// y[i] = sum_j shares[j] * values[j][i], in ascending j: values [count,width].
  void (*mix)(const float* shares, const float* values, float* y, int64_t count, int64_t width);
};

/// A specific instruction set, so that tests can compare them. Requires `runs(isa)`.
const Products& products(Isa isa);
/// For the best instruction set that this processor supports.
const Products& products();

}  // namespace wmtp::kernels
