// Implementation of products.hpp, included once per instruction set after rows_impl.hpp; no standard library
// templates, as in rows_impl.hpp. Vectors are explicit, because the compiler may not reorder floating-point sums and
// would add elements one by one.
#include <cstdint>

#include "model/chunks.hpp"
#include "model/torch/kernels/products.hpp"

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

typedef uint16_t HalfVector __attribute__((vector_size(vector_floats * sizeof(uint16_t))));
typedef uint32_t BitVector __attribute__((vector_size(vector_floats * sizeof(uint32_t))));
inline __attribute__((always_inline)) void load_vector(const Bf16* from, Vector& to) {
  HalfVector halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  const BitVector bits = __builtin_convertvector(halves, BitVector) << 16;
  __builtin_memcpy(&to, &bits, sizeof to);
}

/// The `count` values at `from`, and zeros.
template <class T>
inline __attribute__((always_inline)) void load_padded(const T* from, int64_t count, Vector& to) {
  T values[vector_floats] = {};
  __builtin_memcpy(values, from, size_t(count) * sizeof(T));
  load_vector(values, to);
}

/// Halves the number of partial sums: adds neighbouring pairs within a and within b.
inline __attribute__((always_inline)) void add_neighbours(const Vector& a, const Vector& b, Vector& sums) {
#if defined(__AVX512F__)
  sums = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#else
  sums = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#endif
}

/// The sums of eight vectors, each independent of the other vectors.
inline __attribute__((always_inline)) void sums_of_eight(const Vector* partial, float* sums) {
  Vector four[4], two[2], one;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) add_neighbours(partial[2 * i], partial[2 * i + 1], four[i]);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) add_neighbours(four[2 * i], four[2 * i + 1], two[i]);
  add_neighbours(two[0], two[1], one);
  if constexpr (vector_floats == 16) add_neighbours(one, one, one);
  __builtin_memcpy(sums, &one, 8 * sizeof(float));
}

/// R rows of x times C rows of w, given by pointers: sums[r * C + c]. A sum is computed the same way for all R and C.
/// `fetches_next`: loads the next C rows of w into the cache.
template <int R, int C, bool fetches_next, class W>
void tile(const float* const* row, const W* const* column, int64_t width, float* sums) {
  static_assert(R * C % 8 == 0);
  const int64_t whole = width / vector_floats * vector_floats;
  Vector partial[R * C] = {};
  for (int64_t i = 0; i < whole; i += vector_floats) {
    Vector part[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) load_vector(row[r] + i, part[r]);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      Vector weights;
      load_vector(column[c] + i, weights);
      if constexpr (fetches_next)  // beyond w after its last rows, where it does nothing
        __builtin_prefetch(reinterpret_cast<const void*>(uintptr_t(column[c] + i) + uintptr_t(C * width) * sizeof(W)));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) partial[r * C + c] += part[r] * weights;
    }
  }
  if (whole < width)
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) {
        Vector part, weights;
        load_padded(row[r] + whole, width - whole, part);
        load_padded(column[c] + whole, width - whole, weights);
        partial[r * C + c] += part * weights;
      }
#pragma GCC unroll 2
  for (int eight = 0; eight < R * C; eight += 8) sums_of_eight(partial + eight, sums + eight);
}

/// In tiles of R rows and C columns; an incomplete tile is padded with copies of its last row and column.
template <int R, int C, class W>
void in_tiles(const float* x, const W* w, float* y, int64_t rows, int64_t outs, int64_t width, int64_t stride) {
  for (int64_t o = 0; o < outs; o += C) {
    const int64_t columns = outs - o < C ? outs - o : C;
    const W* column[C];
    for (int64_t c = 0; c < C; ++c) column[c] = w + (o + (c < columns ? c : columns - 1)) * width;
    for (int64_t r = 0; r < rows; r += R) {
      const int64_t together = rows - r < R ? rows - r : R;
      const float* row[R];
      for (int64_t i = 0; i < R; ++i) row[i] = x + (r + (i < together ? i : together - 1)) * width;
      float sums[R * C];
      if (r + R < rows)
        tile<R, C, false>(row, column, width, sums);
      else
        tile<R, C, true>(row, column, width, sums);
      for (int64_t i = 0; i < together; ++i)
        for (int64_t c = 0; c < columns; ++c) y[(r + i) * stride + o + c] = sums[i * C + c];
    }
  }
}

template <class W>
void times_transposed(const float* x, const W* w, float* y, int64_t rows, int64_t outs, int64_t width, int64_t stride) {
  // With several rows, a weight is loaded once per tile; the tile's sums just fit into registers.
#if defined(__AVX512F__)
  constexpr int tile_rows = 4, tile_columns = 4;
#else
  constexpr int tile_rows = 2, tile_columns = 4;
#endif
  if (rows == 1)
    in_tiles<1, columns_per_block>(x, w, y, rows, outs, width, stride);
  else
    in_tiles<tile_rows, tile_columns>(x, w, y, rows, outs, width, stride);
}

/// The sum of n vectors, n a power of two, in sums[0].
template <int n, int vectors>
inline __attribute__((always_inline)) void add_up(Vector (&sums)[n][vectors]) {
#pragma GCC unroll 4
  for (int half = n / 2; half > 0; half /= 2)
#pragma GCC unroll 4
    for (int i = 0; i < half; ++i)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sums[i][v] += sums[i + half][v];
}

/// Enough sums side by side that an addition need not wait for the last one.
constexpr int sums_together = 8;

void score(const float* x, const Pages& keys, int64_t width, int64_t first, int64_t end, float* scores) {
  constexpr int vectors = int(keys_per_panel / vector_floats);
  constexpr int parts = vectors < sums_together ? sums_together / vectors : 1;
  for (int64_t page = first / keys_per_panel; page * keys_per_panel < end; ++page) {
    const float* rows = keys[page];
    Vector sums[parts][vectors] = {};
    for (int64_t i = 0; i < width; i += parts) {
#pragma GCC unroll 2
      for (int part = 0; part < parts; ++part) {
        if (i + part == width) break;
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
          Vector row;
          load_vector(rows + (i + part) * keys_per_panel + v * vector_floats, row);
          sums[part][v] += x[i + part] * row;
        }
      }
    }
    add_up(sums);
    __builtin_memcpy(scores + page * keys_per_panel, sums[0], sizeof sums[0]);
  }
}

/// Calls call(first value of a page, first share, number) for the parts of first … end-1 in each page.
template <class Call>
inline __attribute__((always_inline)) void for_each_page(const float* probs, const Pages& values, int64_t width,
                                                         int64_t first, int64_t end, Call call) {
  for (int64_t j = first; j < end;) {
    const int64_t page = j / keys_per_panel, after = (page + 1) * keys_per_panel, until = after < end ? after : end;
    call(values[page] + (j - page * keys_per_panel) * width, probs + j, until - j);
    j = until;
  }
}

template <int vectors>
inline __attribute__((always_inline)) void mix_part(const float* probs, const Pages& values, int64_t width,
                                                    int64_t column, int64_t first, int64_t end, float* y) {
  constexpr int parts = sums_together / vectors;
  Vector sums[parts][vectors] = {};
  for_each_page(probs, values, width, first, end, [&](const float* rows, const float* of_rows, int64_t count) {
    const auto add = [&](int64_t j, int part) __attribute__((always_inline)) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        Vector row;
        load_vector(rows + j * width + column + v * vector_floats, row);
        sums[part][v] += of_rows[j] * row;
      }
    };
    const int64_t whole = count / parts * parts;
    for (int64_t j = 0; j < whole; j += parts)
#pragma GCC unroll 8
      for (int part = 0; part < parts; ++part) add(j + part, part);
    for (int64_t j = whole; j < count; ++j) add(j, 0);
  });
  add_up(sums);
  __builtin_memcpy(y + column, sums[0], sizeof sums[0]);
}

void mix(const float* probs, const Pages& values, int64_t width, int64_t first, int64_t end, float* y) {
  int64_t i = 0;
  for (; i + 4 * vector_floats <= width; i += 4 * vector_floats) mix_part<4>(probs, values, width, i, first, end, y);
  for (; i + 2 * vector_floats <= width; i += 2 * vector_floats) mix_part<2>(probs, values, width, i, first, end, y);
  for (; i + vector_floats <= width; i += vector_floats) mix_part<1>(probs, values, width, i, first, end, y);
  for (; i < width; ++i) {
    float sum = 0;
    for_each_page(probs, values, width, first, end, [&](const float* rows, const float* of_rows, int64_t count) {
      for (int64_t j = 0; j < count; ++j) sum += of_rows[j] * rows[j * width + i];
    });
    y[i] = sum;
  }
}

}  // namespace

extern const Products products_table;
const Products products_table{&times_transposed<float>, &times_transposed<Bf16>, &score, &mix};

}  // namespace wmtp::kernels::WMTP_ISA
