// Implementation of kernels/attention.hpp, included once per instruction set; uses the rows of rows_impl.hpp and the
// vectors of products_impl.hpp.
//
// Keys and values are first widened to fp32 and keys transposed in panels of 64, so that all products have the same
// form: rows of scalars times rows of vectors, in tiles whose sums stay in registers. A block of queries processes the
// keys from the panel of the first one that it reads; within it, 12 queries at a time those up to the last one's.
#include <cstdint>

#include "model/chunks.hpp"
#include "model/torch/kernels/attention.hpp"
#include "model/torch/kernels/rows_impl.hpp"
// Needs rows_impl.hpp before it.
#include "model/torch/kernels/products_impl.hpp"

namespace wmtp::kernels::WMTP_ISA {
namespace {

/// Copy of base's round_up, which must not be compiled for a newer processor: the linker could use it everywhere.
inline int64_t up_to(int64_t value, int64_t of) { return (value + of - 1) / of * of; }

/// A matrix of scalars: element (i, k) is at[i * row + k * column].
struct Scalars {
  const float* at;
  int64_t row, column;
};

/// c[rows][C vectors] = (or += with `add`) a[rows][depth] b[depth][C vectors]; at most R rows. If there are fewer, the
/// last one is computed again in the place of those that lack, so that every sum is a register of its own.
template <int R, int C>
void vector_tile(Scalars a, int64_t rows, const float* b, int64_t b_stride, float* c, int64_t c_stride, int64_t depth,
                 bool add) {
  const float* row[R];
  float* to[R];
  Vector sum[R][C];
  // All indices into `sum` are compile-time constants: otherwise it would be kept in memory.
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    const int64_t present = r < rows ? r : rows - 1;
    row[r] = a.at + present * a.row;
    to[r] = c + present * c_stride;
#pragma GCC unroll 4
    for (int v = 0; v < C; ++v) sum[r][v] = Vector{};
  }
  if (add) {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < C; ++v) load_vector(to[r] + v * vector_floats, sum[r][v]);
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vector factors[C];
#pragma GCC unroll 4
    for (int v = 0; v < C; ++v) load_vector(b + k * b_stride + v * vector_floats, factors[v]);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const float scalar = row[r][k * a.column];
#pragma GCC unroll 4
      for (int v = 0; v < C; ++v) sum[r][v] += scalar * factors[v];
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < C; ++v) __builtin_memcpy(to[r] + v * vector_floats, &sum[r][v], sizeof sum[r][v]);
}

template <int R, int C>
void vector_tiles(Scalars a, int64_t rows, const float* b, int64_t b_stride, float* c, int64_t c_stride, int64_t depth,
                  bool add) {
  for (int64_t r = 0; r < rows; r += R)
    vector_tile<R, C>({a.at + r * a.row, a.row, a.column}, rows - r < R ? rows - r : R, b, b_stride, c + r * c_stride,
                      c_stride, depth, add);
}

/// c[rows][columns] = (or +=) a[rows][depth] b[depth][columns]; columns are whole vectors.
void multiply(Scalars a, int64_t rows, const float* b, int64_t b_stride, int64_t columns, float* c, int64_t c_stride,
              int64_t depth, bool add) {
  for (int64_t column = 0; column < columns;) {
    const int64_t left = (columns - column) / vector_floats;
    const float* part = b + column;
    float* to = c + column;
#if defined(__AVX512F__)
    if (left >= 4) {
      vector_tiles<6, 4>(a, rows, part, b_stride, to, c_stride, depth, add);
      column += 4 * vector_floats;
      continue;
    }
#endif
#if defined(__AVX2__)
    if (left >= 2) {
      constexpr int together = vector_floats == 16 ? 12 : 6;  // as many sums as registers can hold
      vector_tiles<together, 2>(a, rows, part, b_stride, to, c_stride, depth, add);
      column += 2 * vector_floats;
      continue;
    }
#endif
    vector_tiles<6, 1>(a, rows, part, b_stride, to, c_stride, depth, add);
    column += left > 0 ? vector_floats : columns;
  }
}

/// [count][D] -> [count][padded], the rest zero.
template <class T>
void widen(const T* from, int64_t stride, int64_t count, int64_t D, float* to, int64_t padded) {
  for (int64_t i = 0; i < count; ++i, from += stride, to += padded) {
#pragma omp simd
    for (int64_t d = 0; d < D; ++d) to[d] = load(from[d]);
    for (int64_t d = D; d < padded; ++d) to[d] = 0;
  }
}

/// The first halves of a and b interleaved, and their second halves.
inline __attribute__((always_inline)) void interleave(const Vector& a, const Vector& b, Vector& first, Vector& second) {
#if defined(__AVX512F__)
  first = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  second = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#else
  first = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  second = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#endif
}

/// Rows become columns: each round interleaves the first half of the rows with the second.
inline void transpose_square(Vector (&rows)[vector_floats]) {
  constexpr int half = vector_floats / 2;
#pragma GCC unroll 4
  for (int round = 1; round < vector_floats; round *= 2) {
    Vector next[vector_floats];
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) interleave(rows[i], rows[i + half], next[2 * i], next[2 * i + 1]);
    __builtin_memcpy(rows, next, sizeof next);
  }
}

/// [count][D] -> panels [D][keys_per_panel], with zeros up to a whole vector.
template <class T>
void transpose(const T* from, int64_t stride, int64_t count, int64_t D, float* to) {
  for (int64_t j = 0; j < up_to(count, widest_vector); j += vector_floats) {
    float* const column = to + j / keys_per_panel * keys_per_panel * D + j % keys_per_panel;
    for (int64_t d = 0; d < D; d += vector_floats) {
      const int64_t features = D - d < vector_floats ? D - d : vector_floats;
      Vector square[vector_floats];
      for (int64_t i = 0; i < vector_floats; ++i) {
        const T* const row = from + (j + i) * stride + d;
        if (j + i >= count)
          square[i] = Vector{};
        else if (features == vector_floats)
          load_vector(row, square[i]);
        else
          load_padded(row, features, square[i]);
      }
      transpose_square(square);
      for (int64_t i = 0; i < features; ++i)
        __builtin_memcpy(column + (d + i) * keys_per_panel, &square[i], sizeof square[i]);
    }
  }
}

template <class T>
void narrow(const float* from, int64_t padded, int64_t count, int64_t D, T* to, int64_t stride) {
  for (int64_t i = 0; i < count; ++i, from += padded, to += stride)
#pragma omp simd
    for (int64_t d = 0; d < D; ++d) store(to[d], from[d]);
}

struct Scratch {
  float* next;
  float* take(int64_t floats) {
    float* part = next;
    next += floats;
    return part;
  }
};

/// Queries that share their keys, or keys that share their queries: a multiple of the tile heights (6, 12).
constexpr int64_t rows_per_group = 12;

/// The queries q … q + count - 1 and the keys first … q + count - 1; `first` begins a panel. Query i reads no key after
/// i, so a group of queries skips the keys after the group, and a group of keys the queries before it.
struct QueryBlock {
  int64_t q, count, first;
  int64_t end() const { return q + count; }
};

inline QueryBlock block_at(const AttentionHead& h, int64_t q) {
  return {q, h.end - q < queries_per_block ? h.end - q : queries_per_block,
          h.first_key(q) / keys_per_panel * keys_per_panel};
}

inline int64_t rows_of_group(int64_t left) { return left < rows_per_group ? left : rows_per_group; }

/// scores[count][first …] = rows[count][D] times the transposed panels, up to each group's last key, in whole vectors.
inline void score_block(const QueryBlock& b, const float* rows, int64_t padded, const float* panels, int64_t D,
                        float* scores, int64_t width) {
  for (int64_t key = b.first; key < b.end(); key += keys_per_panel)
    for (int64_t r = key > b.q ? (key - b.q) / rows_per_group * rows_per_group : 0; r < b.count; r += rows_per_group) {
      const int64_t n = rows_of_group(b.count - r), left = up_to(b.q + r + n - key, widest_vector);
      multiply({rows + r * padded, padded, 1}, n, panels + key * D, keys_per_panel,
               left < keys_per_panel ? left : keys_per_panel, scores + r * width + key, width, D, false);
    }
}

/// sums[count][padded] = weights[count][first …] times the values of those keys. Weights after a query's own are 0.
inline void mix_block(const QueryBlock& b, const float* weights, int64_t width, const float* values, int64_t padded,
                      float* sums) {
  for (int64_t r = 0; r < b.count; r += rows_per_group) {
    const int64_t n = rows_of_group(b.count - r);
    multiply({weights + r * width + b.first, width, 1}, n, values + b.first * padded, padded, padded, sums + r * padded,
             padded, b.q + r + n - b.first, false);
  }
}

/// sums[first …][padded] += the transposed weights times rows[count][padded].
inline void mix_block_transposed(const QueryBlock& b, const float* weights, int64_t width, const float* rows,
                                 int64_t padded, float* sums) {
  for (int64_t key = b.first; key < b.end(); key += rows_per_group) {
    const int64_t skipped = key > b.q ? key - b.q : 0;
    multiply({weights + skipped * width + key, 1, width}, rows_of_group(b.end() - key), rows + skipped * padded, padded,
             padded, sums + key * padded, padded, b.count - skipped, true);
  }
}

template <class T>
void attention_forward(const AttentionHead& h, const T* query, const T* key, const T* value, T* out, float* log_sums,
                       float* scratch) {
  const int64_t padded = up_to(h.D, widest_vector), width = up_to(h.end, keys_per_panel);
  const float scale = 1.0f / __builtin_sqrtf(float(h.D));
  Scratch parts{scratch};
  float *keys = parts.take(width * h.D), *values = parts.take(h.end * padded),
        *queries = parts.take(queries_per_block * padded), *mixed = parts.take(queries_per_block * padded),
        *scores = parts.take(queries_per_block * width);
  transpose(key, h.key_stride, h.end, h.D, keys);
  widen(value, h.key_stride, h.end, h.D, values, padded);
  for (int64_t r = 0; r < h.R; ++r)
    for (int64_t q = h.begin; q < h.end; q += queries_per_block) {
      const QueryBlock b = block_at(h, q);
      widen(query + q * h.query_stride + r * h.D, h.query_stride, b.count, h.D, queries, padded);
      score_block(b, queries, padded, keys, h.D, scores, width);
      for (int64_t i = 0; i < b.count; ++i) {
        float* row = scores + i * width;
        const int64_t begin = h.first_key(q + i), count = q + i + 1 - begin;
        clear(row, b.first, begin);
        log_sums[r * h.positions + q + i] = causal_softmax(row + begin, scale, count, b.end() - begin);
      }
      mix_block(b, scores, width, values, padded, mixed);
      narrow(mixed, padded, b.count, h.D, out + q * h.query_stride + r * h.D, h.query_stride);
    }
}

template <class T>
void attention_backward(const AttentionHead& h, const T* query, const T* key, const T* value, const T* d_out,
                        const float* log_sums, T* dq, float* dk, float* dv, float* scratch) {
  const int64_t padded = up_to(h.D, widest_vector), width = up_to(h.end, keys_per_panel);
  const float scale = 1.0f / __builtin_sqrtf(float(h.D));
  Scratch parts{scratch};
  float *keys = parts.take(h.end * padded), *turned_keys = parts.take(width * h.D),
        *turned_values = parts.take(width * h.D), *d_keys = parts.take(h.end * padded),
        *d_values = parts.take(h.end * padded), *queries = parts.take(queries_per_block * padded),
        *d_rows = parts.take(queries_per_block * padded), *d_queries = parts.take(queries_per_block * padded),
        *probs = parts.take(queries_per_block * width), *d = parts.take(queries_per_block * width);
  widen(key, h.key_stride, h.end, h.D, keys, padded);
  transpose(key, h.key_stride, h.end, h.D, turned_keys);
  transpose(value, h.key_stride, h.end, h.D, turned_values);
  clear(d_keys, 0, h.end * padded);
  clear(d_values, 0, h.end * padded);
  for (int64_t r = 0; r < h.R; ++r)
    for (int64_t q = h.begin; q < h.end; q += queries_per_block) {
      const QueryBlock b = block_at(h, q);
      const int64_t place = q * h.query_stride + r * h.D;
      widen(query + place, h.query_stride, b.count, h.D, queries, padded);
      widen(d_out + place, h.query_stride, b.count, h.D, d_rows, padded);
      score_block(b, queries, padded, turned_keys, h.D, probs, width);
      score_block(b, d_rows, padded, turned_values, h.D, d, width);
      for (int64_t i = 0; i < b.count; ++i) {
        float *row = probs + i * width, *d_row = d + i * width;
        const int64_t begin = h.first_key(q + i), count = q + i + 1 - begin;
        clear(row, b.first, begin);
        clear(d_row, b.first, begin);
        causal_softmax_backward(row + begin, d_row + begin, scale, log_sums[r * h.positions + q + i], count,
                                b.end() - begin);
      }
      mix_block_transposed(b, probs, width, d_rows, padded, d_values);
      mix_block_transposed(b, d, width, queries, padded, d_keys);
      mix_block(b, d, width, keys, padded, d_queries);
      narrow(d_queries, padded, b.count, h.D, dq + place, h.query_stride);
    }
  narrow(d_keys, padded, h.end, h.D, dk, h.key_stride);
  narrow(d_values, padded, h.end, h.D, dv, h.key_stride);
}

}  // namespace
}  // namespace wmtp::kernels::WMTP_ISA

#if defined(__AMX_BF16__)
#include "model/torch/kernels/attention_tiles.hpp"
#endif

namespace wmtp::kernels::WMTP_ISA {
namespace {

#if defined(__AMX_BF16__)
/// Tiles hold 32 features.
void bf16_forward(const AttentionHead& h, const Bf16* query, const Bf16* key, const Bf16* value, Bf16* out,
                  float* log_sums, float* scratch) {
  const auto forward = h.D % tile_depth == 0 ? &tiled_forward : &attention_forward<Bf16>;
  forward(h, query, key, value, out, log_sums, scratch);
}
void bf16_backward(const AttentionHead& h, const Bf16* query, const Bf16* key, const Bf16* value, const Bf16* d_out,
                   const float* log_sums, Bf16* dq, float* dk, float* dv, float* scratch) {
  const auto backward = h.D % tile_depth == 0 ? &tiled_backward : &attention_backward<Bf16>;
  backward(h, query, key, value, d_out, log_sums, dq, dk, dv, scratch);
}
#else
constexpr auto bf16_forward = &attention_forward<Bf16>;
constexpr auto bf16_backward = &attention_backward<Bf16>;
#endif

}  // namespace

extern const Attention<float> float_attention;
extern const Attention<Bf16> bf16_attention;
const Attention<float> float_attention{&attention_forward<float>, &attention_backward<float>};
const Attention<Bf16> bf16_attention{bf16_forward, bf16_backward};

}  // namespace wmtp::kernels::WMTP_ISA
