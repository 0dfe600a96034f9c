// Attention of bf16 heads in AMX tiles; included by attention_impl.hpp where the compiler has AMX. Products of queries
// and keys are exact, as in the kernel for vectors; probs and their gradients are rounded to bf16 before they are
// multiplied, as in flash attention on GPUs.
//
// A tile product is c[16][16] += a[16][32] b[32][16], of bf16 with fp32 sums, where b is stored in pairs of rows: its
// dword (p, j) holds rows 2p and 2p + 1 of column j. Four tiles of c are computed together, from two of a and two of b.
#include <immintrin.h>

namespace wmtp::kernels::WMTP_ISA {
namespace {

constexpr int64_t tile_edge = 16, tile_depth = 32, tile_dwords = 256;

/// Configures the eight tiles in its scope. oneDNN's kernels may have another configuration in use on this thread.
class Tiles {
 public:
  Tiles() {
    Configuration own{};
    own.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
      own.rows[tile] = tile_edge;
      own.row_bytes[tile] = 64;
    }
    __asm__ volatile("sttilecfg %0" : "=m"(before_));
    load(own);
  }
  ~Tiles() {
    if (before_.palette == 0)
      _tile_release();
    else
      load(before_);
  }
  Tiles(const Tiles&) = delete;

 private:
  struct alignas(64) Configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  /// GCC's intrinsic names only the first eight bytes as its input.
  static void load(const Configuration& configuration) { __asm__ volatile("ldtilecfg %0" : : "m"(configuration)); }

  Configuration before_;
};

/// GCC's tile instructions do not say that they read memory.
inline void finish_stores() { __asm__ volatile("" ::: "memory"); }

/// c tiles 0 1 | 2 3 += a tiles 4 | 5 times b tiles 6 7.
inline __attribute__((always_inline)) void multiply_tiles() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}
inline __attribute__((always_inline)) void zero_tiles() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}
/// To or from 32 x 32 floats.
inline __attribute__((always_inline)) void store_tiles(float* c, int64_t stride) {
  const int64_t bytes = stride * 4;
  _tile_stored(0, c, bytes);
  _tile_stored(1, c + tile_edge, bytes);
  _tile_stored(2, c + tile_edge * stride, bytes);
  _tile_stored(3, c + tile_edge * stride + tile_edge, bytes);
}
inline __attribute__((always_inline)) void load_tiles(const float* c, int64_t stride) {
  const int64_t bytes = stride * 4;
  _tile_loadd(0, c, bytes);
  _tile_loadd(1, c + tile_edge, bytes);
  _tile_loadd(2, c + tile_edge * stride, bytes);
  _tile_loadd(3, c + tile_edge * stride + tile_edge, bytes);
}

/// to[i][j] = from[j][i] of 16 x 16 dwords, of which `count` rows of `from` exist; the others are zero.
inline void turn_dwords(const void* from, int64_t stride, int64_t count, uint32_t* to, int64_t to_stride) {
  const __mmask16 exists = count < tile_edge ? __mmask16((1u << count) - 1) : __mmask16(0xffff);
  const __m512i places = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                            _mm512_set1_epi32(int(stride)));
  for (int64_t i = 0; i < tile_edge; ++i)
    _mm512_storeu_si512(to + i * to_stride, _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), exists, places,
                                                                        static_cast<const uint32_t*>(from) + i, 4));
}

/// Rows [count][D], padded with zeros to 32 -> b tiles [rows/16][D/32] for products over features, with a column for
/// each row.
inline void as_columns(const Bf16* from, int64_t stride, int64_t count, int64_t D, uint32_t* to) {
  for (int64_t row = 0; row < count; row += tile_edge)
    for (int64_t d = 0; d < D; d += tile_depth, to += tile_dwords)
      turn_dwords(from + row * stride + d, stride / 2, count - row, to, tile_edge);
  if ((count + tile_edge - 1) / tile_edge % 2 == 1)
    for (int64_t i = 0; i < D / tile_depth * tile_dwords; ++i) to[i] = 0;
}

/// Rows [count][D], padded with zeros to 32 -> b tiles [rows/32][D/16] for products over rows.
inline void as_pairs(const Bf16* from, int64_t stride, int64_t count, int64_t D, uint32_t* to) {
  const auto part = [&](int64_t row, int64_t d) {
    return row < count
               ? _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + row * stride + d)))
               : _mm512_setzero_si512();
  };
  for (int64_t row = 0; row < count; row += tile_depth)
    for (int64_t d = 0; d < D; d += tile_edge)
      for (int64_t pair = 0; pair < tile_depth; pair += 2, to += tile_edge)
        _mm512_storeu_si512(to, _mm512_or_si512(part(row + pair, d), _mm512_slli_epi32(part(row + pair + 1, d), 16)));
}

/// Up to 32 rows [count][D], given as the b tiles of as_pairs, transposed: [D][32], the rows of a tiles.
inline void turned(const uint32_t* pairs, int64_t D, uint32_t* to) {
  for (int64_t d = 0; d < D; d += tile_edge)
    turn_dwords(pairs + d * tile_edge, tile_edge, tile_edge, to + d * tile_edge, tile_edge);
}

/// Copies up to 32 rows [count][D]; the others become zero.
inline void copy_rows(const Bf16* from, int64_t stride, int64_t count, int64_t D, Bf16* to) {
  for (int64_t row = 0; row < tile_depth; ++row)
    for (int64_t d = 0; d < D; d += tile_depth)
      _mm512_storeu_si512(to + row * D + d,
                          row < count ? _mm512_loadu_si512(from + row * stride + d) : _mm512_setzero_si512());
}

/// c[32][32] = a[32][32 steps] times b tiles, of which a step's second is at `right` and the next step's at `step`
/// dwords.
inline void product_tiles(const Bf16* a, int64_t a_stride, const uint32_t* b, int64_t right, int64_t step,
                          int64_t steps, float* c, int64_t c_stride) {
  zero_tiles();
  for (int64_t i = 0; i < steps; ++i, a += tile_depth, b += step) {
    _tile_loadd(4, a, a_stride * 2);
    _tile_loadd(5, a + tile_edge * a_stride, a_stride * 2);
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + right, 64);
    multiply_tiles();
  }
  store_tiles(c, c_stride);
}

/// scores[32][first … end] = rows [32][D] times columns; both bounds are multiples of 32.
inline void score_tiles(const Bf16* rows, const uint32_t* columns, int64_t D, int64_t first, int64_t end, float* scores,
                        int64_t width) {
  const int64_t steps = D / tile_depth, of_edge = steps * tile_dwords;  // dwords of 16 columns
  for (int64_t key = first; key < end; key += 2 * tile_edge)
    product_tiles(rows, D, columns + key / tile_edge * of_edge, of_edge, tile_dwords, steps, scores + key, width);
}

/// mixed[32][D] = probs[32][first … end] (rows of `width`) times pairs of rows.
inline void mix_tiles(const Bf16* probs, int64_t width, const uint32_t* pairs, int64_t first, int64_t end, int64_t D,
                      float* mixed) {
  const int64_t steps = (end - first) / tile_depth, of_depth = D / tile_edge * tile_dwords;  // dwords of 32 rows
  const uint32_t* from = pairs + first / tile_depth * of_depth;
  for (int64_t d = 0; d < D; d += 2 * tile_edge)
    product_tiles(probs + first, width, from + d / tile_edge * tile_dwords, tile_dwords, of_depth, steps, mixed + d, D);
}

/// sums[D][first … end] (rows of `width`) += turned [D][32 queries] times pairs of queries [16][first … end] (rows of
/// `width` dwords).
inline void add_tiles(const uint32_t* turned, const uint32_t* pairs, int64_t first, int64_t end, int64_t D, float* sums,
                      int64_t width) {
  for (int64_t d = 0; d < D; d += 2 * tile_edge) {
    _tile_loadd(4, turned + d * tile_edge, 64);
    _tile_loadd(5, turned + (d + tile_edge) * tile_edge, 64);
    for (int64_t key = first; key < end; key += 2 * tile_edge) {
      float* c = sums + d * width + key;
      load_tiles(c, width);
      _tile_loadd(6, pairs + key, width * 4);
      _tile_loadd(7, pairs + key + tile_edge, width * 4);
      multiply_tiles();
      store_tiles(c, width);
    }
  }
}

/// Rounds numbers [begin, end), multiples of 32.
inline void round_row(const float* from, int64_t begin, int64_t end, Bf16* to) {
  for (int64_t i = begin; i < end; i += tile_depth)
    _mm512_storeu_si512(to + i, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + tile_edge),
                                                                              _mm512_loadu_ps(from + i))));
}

/// pairs[i] = {even[i], odd[i]}, rounded; [begin, end) are multiples of 16.
inline void pair_up(const float* even, const float* odd, int64_t begin, int64_t end, uint32_t* pairs) {
  for (int64_t i = begin; i < end; i += tile_edge) {
    const auto low = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(even + i))),
               high = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(odd + i)));
    _mm512_storeu_si512(
        pairs + i, _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16)));
  }
}

/// [D][count] (rows of `width`) -> to[i * stride + d].
inline void turn_back(const float* from, int64_t width, int64_t count, int64_t D, float* to, int64_t stride) {
  alignas(64) float tile[tile_dwords];
  for (int64_t i = 0; i < count; i += tile_edge)
    for (int64_t d = 0; d < D; d += tile_edge) {
      turn_dwords(from + d * width + i, width, tile_edge, reinterpret_cast<uint32_t*>(tile), tile_edge);
      for (int64_t row = 0; row < tile_edge && i + row < count; ++row)
        __builtin_memcpy(to + (i + row) * stride + d, tile + row * tile_edge, tile_edge * sizeof(float));
    }
}

struct TileScratch {
  Scratch scratch;
  float* floats(int64_t count) { return scratch.take(count); }
  uint32_t* dwords(int64_t count) { return reinterpret_cast<uint32_t*>(scratch.take(count)); }
  Bf16* halves(int64_t count) { return reinterpret_cast<Bf16*>(scratch.take(count / 2)); }
};

void tiled_forward(const AttentionHead& h, const Bf16* query, const Bf16* key, const Bf16* value, Bf16* out,
                   float* log_sums, float* scratch) {
  const int64_t D = h.D, width = up_to(h.end, tile_depth);
  const float scale = 1.0f / __builtin_sqrtf(float(D));
  TileScratch parts{{scratch}};
  uint32_t *keys = parts.dwords(width * D / 2), *values = parts.dwords(width * D / 2);
  Bf16 *queries = parts.halves(tile_depth * D), *probs = parts.halves(tile_depth * width);
  float *scores = parts.floats(tile_depth * width), *mixed = parts.floats(tile_depth * D);
  as_columns(key, h.key_stride, h.end, D, keys);
  as_pairs(value, h.key_stride, h.end, D, values);
  const Tiles tiles;
  for (int64_t r = 0; r < h.R; ++r)
    for (int64_t q = h.begin; q < h.end; q += tile_depth) {
      const int64_t n = h.end - q < tile_depth ? h.end - q : tile_depth, place = q * h.query_stride + r * D;
      const int64_t first = h.first_key(q) / tile_depth * tile_depth, last = up_to(q + n, tile_depth);
      copy_rows(query + place, h.query_stride, n, D, queries);
      finish_stores();
      score_tiles(queries, keys, D, first, last, scores, width);
      for (int64_t i = 0; i < n; ++i) {
        float* row = scores + i * width;
        const int64_t begin = h.first_key(q + i);
        clear(row, first, begin);
        log_sums[r * h.positions + q + i] = causal_softmax(row + begin, scale, q + i + 1 - begin, last - begin);
        round_row(row, first, last, probs + i * width);
      }
      finish_stores();
      mix_tiles(probs, width, values, first, last, D, mixed);  // rows beyond n are not read
      narrow(mixed, D, n, D, out + place, h.query_stride);
    }
}

void tiled_backward(const AttentionHead& h, const Bf16* query, const Bf16* key, const Bf16* value, const Bf16* d_out,
                    const float* log_sums, Bf16* dq, float* dk, float* dv, float* scratch) {
  const int64_t D = h.D, width = up_to(h.end, tile_depth);
  const float scale = 1.0f / __builtin_sqrtf(float(D));
  TileScratch parts{{scratch}};
  uint32_t *key_columns = parts.dwords(width * D / 2), *value_columns = parts.dwords(width * D / 2),
           *key_pairs = parts.dwords(width * D / 2), *pairs = parts.dwords(tile_edge * D),
           *turned_queries = parts.dwords(tile_edge * D), *turned_rows = parts.dwords(tile_edge * D),
           *prob_pairs = parts.dwords(tile_edge * width), *d_pairs = parts.dwords(tile_edge * width);
  Bf16 *queries = parts.halves(tile_depth * D), *rows = parts.halves(tile_depth * D),
       *d_probs = parts.halves(tile_depth * width);
  float *d_keys = parts.floats(width * D), *d_values = parts.floats(width * D),
        *probs = parts.floats(tile_depth * width), *d = parts.floats(tile_depth * width),
        *d_queries = parts.floats(tile_depth * D);
  as_columns(key, h.key_stride, h.end, D, key_columns);
  as_columns(value, h.key_stride, h.end, D, value_columns);
  as_pairs(key, h.key_stride, h.end, D, key_pairs);
  clear(d_keys, 0, width * D);
  clear(d_values, 0, width * D);
  const Tiles tiles;
  for (int64_t r = 0; r < h.R; ++r)
    for (int64_t q = h.begin; q < h.end; q += tile_depth) {
      const int64_t n = h.end - q < tile_depth ? h.end - q : tile_depth, place = q * h.query_stride + r * D;
      const int64_t first = h.first_key(q) / tile_depth * tile_depth, last = up_to(q + n, tile_depth);
      copy_rows(query + place, h.query_stride, n, D, queries);
      copy_rows(d_out + place, h.query_stride, n, D, rows);
      as_pairs(queries, D, tile_depth, D, pairs);
      turned(pairs, D, turned_queries);
      as_pairs(rows, D, tile_depth, D, pairs);
      turned(pairs, D, turned_rows);
      finish_stores();
      score_tiles(queries, key_columns, D, first, last, probs, width);
      score_tiles(rows, value_columns, D, first, last, d, width);
      for (int64_t i = 0; i < tile_depth; ++i) {
        float *row = probs + i * width, *d_row = d + i * width;
        const int64_t begin = i < n ? h.first_key(q + i) : last;
        clear(row, first, begin);
        clear(d_row, first, begin);
        if (i < n)
          causal_softmax_backward(row + begin, d_row + begin, scale, log_sums[r * h.positions + q + i],
                                  q + i + 1 - begin, last - begin);
        round_row(d_row, first, last, d_probs + i * width);
      }
      for (int64_t i = 0; i < tile_depth; i += 2) {
        pair_up(probs + i * width, probs + (i + 1) * width, first, last, prob_pairs + i / 2 * width);
        pair_up(d + i * width, d + (i + 1) * width, first, last, d_pairs + i / 2 * width);
      }
      finish_stores();
      add_tiles(turned_rows, prob_pairs, first, last, D, d_values, width);
      add_tiles(turned_queries, d_pairs, first, last, D, d_keys, width);
      mix_tiles(d_probs, width, key_pairs, first, last, D, d_queries);
      narrow(d_queries, D, n, D, dq + place, h.query_stride);
    }
  turn_back(d_keys, width, h.end, D, dk, h.key_stride);
  turn_back(d_values, width, h.end, D, dv, h.key_stride);
}

}  // namespace
}  // namespace wmtp::kernels::WMTP_ISA
