// Implementation of kernels/attention.hpp, included once per instruction set; uses the rows of rows_impl.hpp and the
// vectors of products_impl.hpp.
//
// Each block of queries is multiplied with all keys before its end at once. Keys and values are first widened to fp32
// and keys transposed in panels of 64, so that all products have the same form: rows of scalars times rows of vectors,
// in tiles whose sums stay in registers.
#include <cstdint>

#include "model/chunks.hpp"
#include "model/torch/kernels/attention.hpp"
#include "model/torch/kernels/rows_impl.hpp"
// Needs rows_impl.hpp before it.
#include "model/torch/kernels/products_impl.hpp"

namespace wmtp::kernels::WMTP_ISA {
namespace {

/// A matrix of scalars: element (i, k) is at[i * row + k * column].
struct Scalars {
  const float* at;
  int64_t row, column;
};

/// c[rows][C vectors] = (or += with `add`) a[rows][depth] b[depth][C vectors]; at most R rows.
template <int R, int C>
void vector_tile(Scalars a, int64_t rows, const float* b, int64_t b_stride, float* c, int64_t c_stride, int64_t depth,
                 bool add) {
  const float* row[R];
  Vector sum[R][C] = {};
  // All indices into `sum` are compile-time constants: otherwise it would be kept in memory.
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    row[r] = a.at + (r < rows ? r : rows - 1) * a.row;
    if (add && r < rows) __builtin_memcpy(sum[r], c + r * c_stride, sizeof sum[r]);
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
    if (r < rows) __builtin_memcpy(c + r * c_stride, sum[r], sizeof sum[r]);
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

/// [count][D] -> panels [D][keys_per_panel], zero-padded; `wide` [keys_per_panel][padded] is overwritten.
template <class T>
void transpose(const T* from, int64_t stride, int64_t count, int64_t D, float* to, float* wide, int64_t padded) {
  for (int64_t first = 0; first < count; first += keys_per_panel, to += D * keys_per_panel) {
    const int64_t here = count - first < keys_per_panel ? count - first : keys_per_panel;
    widen(from + first * stride, stride, here, D, wide, padded);
    clear(wide, here * padded, keys_per_panel * padded);
    for (int64_t d = 0; d < D; ++d)
#pragma omp simd
      for (int64_t j = 0; j < keys_per_panel; ++j) to[d * keys_per_panel + j] = wide[j * padded + d];
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

/// Copy of base's round_up, which must not be compiled for a newer processor: the linker could use it everywhere.
inline int64_t up_to(int64_t value, int64_t of) { return (value + of - 1) / of * of; }

/// scores[rows][first … keys, in whole vectors] = rows[rows][D] times the transposed panels; `first` begins a panel.
inline void score(const float* rows, int64_t padded, int64_t count, const float* panels, int64_t D, int64_t first,
                  int64_t keys, float* scores, int64_t width) {
  for (int64_t key = first; key < keys; key += keys_per_panel) {
    const int64_t left = up_to(keys - key, widest_vector), columns = left < keys_per_panel ? left : keys_per_panel;
    multiply({rows, padded, 1}, count, panels + key * D, keys_per_panel, columns, scores + key, width, D, false);
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
        *scores = parts.take(queries_per_block * width), *panel = parts.take(keys_per_panel * padded);
  transpose(key, h.key_stride, h.end, h.D, keys, panel, padded);
  widen(value, h.key_stride, h.end, h.D, values, padded);
  for (int64_t r = 0; r < h.R; ++r)
    for (int64_t q = h.begin; q < h.end; q += queries_per_block) {
      const int64_t n = h.end - q < queries_per_block ? h.end - q : queries_per_block, ahead = q + n;
      widen(query + q * h.query_stride + r * h.D, h.query_stride, n, h.D, queries, padded);
      const int64_t first = h.first_key(q) / keys_per_panel * keys_per_panel;
      score(queries, padded, n, keys, h.D, first, ahead, scores, width);
      for (int64_t i = 0; i < n; ++i) {
        float* row = scores + i * width;
        const int64_t begin = h.first_key(q + i), count = q + i + 1 - begin;
        clear(row, first, begin);
        log_sums[r * h.positions + q + i] = causal_softmax(row + begin, scale, count, ahead - begin);
      }
      multiply({scores + first, width, 1}, n, values + first * padded, padded, padded, mixed, padded, ahead - first,
               false);
      narrow(mixed, padded, n, h.D, out + q * h.query_stride + r * h.D, h.query_stride);
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
        *probs = parts.take(queries_per_block * width), *d = parts.take(queries_per_block * width),
        *panel = parts.take(keys_per_panel * padded);
  widen(key, h.key_stride, h.end, h.D, keys, padded);
  transpose(key, h.key_stride, h.end, h.D, turned_keys, panel, padded);
  transpose(value, h.key_stride, h.end, h.D, turned_values, panel, padded);
  clear(d_keys, 0, h.end * padded);
  clear(d_values, 0, h.end * padded);
  for (int64_t r = 0; r < h.R; ++r)
    for (int64_t q = h.begin; q < h.end; q += queries_per_block) {
      const int64_t n = h.end - q < queries_per_block ? h.end - q : queries_per_block, ahead = q + n;
      const int64_t place = q * h.query_stride + r * h.D;
      widen(query + place, h.query_stride, n, h.D, queries, padded);
      widen(d_out + place, h.query_stride, n, h.D, d_rows, padded);
      const int64_t first = h.first_key(q) / keys_per_panel * keys_per_panel, read = ahead - first;
      score(queries, padded, n, turned_keys, h.D, first, ahead, probs, width);
      score(d_rows, padded, n, turned_values, h.D, first, ahead, d, width);
      for (int64_t i = 0; i < n; ++i) {
        float *row = probs + i * width, *d_row = d + i * width;
        const int64_t begin = h.first_key(q + i), count = q + i + 1 - begin;
        clear(row, first, begin);
        clear(d_row, first, begin);
        causal_softmax_backward(row + begin, d_row + begin, scale, log_sums[r * h.positions + q + i], count,
                                ahead - begin);
      }
      multiply({probs + first, 1, width}, read, d_rows, padded, padded, d_values + first * padded, padded, n, true);
      multiply({d + first, 1, width}, read, queries, padded, padded, d_keys + first * padded, padded, n, true);
      multiply({d + first, width, 1}, n, keys + first * padded, padded, padded, d_queries, padded, read, false);
      narrow(d_queries, padded, n, h.D, dq + place, h.query_stride);
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
