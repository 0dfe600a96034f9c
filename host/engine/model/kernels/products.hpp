// Matrix products whose every row has the same bits whatever rows stand beside it: a sum is taken by the same
// operations in the same order, alone or among others. BLAS promises no such thing; it takes another way for one row
// than for several. What a decoder says of a token therefore does not depend on how many tokens it was given at once.
//
// Compiled once for each instruction set (products_impl.hpp) and chosen with the other row kernels. fp32, plain
// pointers, contiguous rows, no threads of their own.
#pragma once

#include <cstdint>

#include "engine/model/kernels/rows.hpp"

namespace wmtp::kernels {

/// Columns of an output that are computed together; a caller that cuts them cuts at multiples of this.
inline constexpr int64_t columns_of_block = 8;

struct Products {
  /// y[r][o] = sum_i x[r][i] * w[o][i]: x [rows,width], w [outs,width]; y has `stride` floats a row. The order of a sum
  /// follows from `width` alone.
  void (*times_transposed)(const float* x, const float* w, float* y, int64_t rows, int64_t outs, int64_t width,
                           int64_t stride);
  /// y[i] = sum_j shares[j] * values[j][i], in the order of j: values [count,width].
  void (*mix)(const float* shares, const float* values, float* y, int64_t count, int64_t width);
};

/// One set, so that a test can hold one against another. Only where `runs(isa)`.
const Products& products(Isa isa);
/// The fastest set that this processor runs.
const Products& products();

}  // namespace wmtp::kernels
