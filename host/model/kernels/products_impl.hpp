// The bodies of products.hpp, included by one file for each instruction set after WMTP_ISA is defined; as in
// rows_impl.hpp no standard library templates. Vectors are written out instead of left to the compiler, which may
// reorder no sum of floats and would add them one by one.
#include <cstdint>

#include "model/kernels/products.hpp"

namespace wmtp::kernels::WMTP_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int64_t vector_floats = 16;
#else
constexpr int64_t vector_floats = 8;
#endif
typedef float Vector __attribute__((vector_size(vector_floats * sizeof(float))));

inline __attribute__((always_inline)) void load_vector(const float* from, Vector& to) {
  __builtin_memcpy(&to, from, sizeof to);
}

/// Halves the number of partial sums: those of a beside those of b, each pair of neighbours added.
inline __attribute__((always_inline)) void add_neighbours(const Vector& a, const Vector& b, Vector& sums) {
#if defined(__AVX512F__)
  sums = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#else
  sums = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#endif
}

/// One row of x times the rows of w that `column` points to.
inline __attribute__((always_inline)) void block_of_products(const float* x, const float* const* column, int64_t width,
                                                             float* sums) {
  const int64_t whole = width / vector_floats * vector_floats;
  Vector partial[columns_of_block] = {};
  for (int64_t i = 0; i < whole; i += vector_floats) {
    Vector part;
    load_vector(x + i, part);
#pragma GCC unroll 8
    for (int64_t o = 0; o < columns_of_block; ++o) {
      Vector weights;
      load_vector(column[o] + i, weights);
      partial[o] += part * weights;
    }
  }
  Vector four[4], two[2], one;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) add_neighbours(partial[2 * i], partial[2 * i + 1], four[i]);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) add_neighbours(four[2 * i], four[2 * i + 1], two[i]);
  add_neighbours(two[0], two[1], one);
  constexpr int64_t parts = vector_floats / columns_of_block;  // that are left of each sum
  for (int64_t o = 0; o < columns_of_block; ++o) {
    float rest = 0;
    for (int64_t i = whole; i < width; ++i) rest += x[i] * column[o][i];
    float sum = rest;
    for (int64_t i = 0; i < parts; ++i) sum += one[parts * o + i];
    sums[o] = sum;
  }
}

void times_transposed(const float* x, const float* w, float* y, int64_t rows, int64_t outs, int64_t width,
                      int64_t stride) {
  // The block's weights stay in the nearest cache while one row of x after another passes.
  for (int64_t begin = 0; begin < outs; begin += columns_of_block) {
    const int64_t count = outs - begin < columns_of_block ? outs - begin : columns_of_block;
    const float* column[columns_of_block];  // beyond the last one, the last one again: there is one way only
    for (int64_t o = 0; o < columns_of_block; ++o) column[o] = w + (begin + (o < count ? o : count - 1)) * width;
    for (int64_t r = 0; r < rows; ++r) {
      float sums[columns_of_block];
      block_of_products(x + r * width, column, width, sums);
      for (int64_t o = 0; o < count; ++o) y[r * stride + begin + o] = sums[o];
    }
  }
}

template <int vectors>
inline __attribute__((always_inline)) void mix_part(const float* shares, const float* values, float* y, int64_t count,
                                                    int64_t width) {
  Vector sums[vectors] = {};
  for (int64_t j = 0; j < count; ++j)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      Vector value;
      load_vector(values + j * width + v * vector_floats, value);
      sums[v] += shares[j] * value;
    }
  __builtin_memcpy(y, sums, sizeof sums);
}

void mix(const float* shares, const float* values, float* y, int64_t count, int64_t width) {
  constexpr int together = 4;
  int64_t i = 0;
  for (; i + together * vector_floats <= width; i += together * vector_floats)
    mix_part<together>(shares, values + i, y + i, count, width);
  for (; i + vector_floats <= width; i += vector_floats) mix_part<1>(shares, values + i, y + i, count, width);
  for (; i < width; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < count; ++j) sum += shares[j] * values[j * width + i];
    y[i] = sum;
  }
}

}  // namespace

extern const Products products_table;
const Products products_table{&times_transposed, &mix};

}  // namespace wmtp::kernels::WMTP_ISA
