// Implementation of rows.hpp, included once per instruction set after WMTP_ISA is defined. No standard library
// templates here: the linker could use the ones compiled for a newer processor everywhere.
#include <cstdint>

#include "model/torch/kernels/rows.hpp"

namespace wmtp::kernels::WMTP_ISA {
namespace {

inline float as_float(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t as_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float load(float x) { return x; }
inline float load(Bf16 x) { return as_float(uint32_t(x.bits) << 16); }
inline void store(float& to, float x) { to = x; }
inline void store(Bf16& to, float x) {  // round to nearest, ties to even; preserves NaN
  const uint32_t bits = as_bits(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  to.bits = uint16_t(x != x ? 0x7fc0u : rounded);
}

/// exp to 1.5 ulp: 2^n * p(r), r in +-ln2/2, with Cephes' polynomial (Moshier); 0 below -87, NaN for NaN. Adding 1.5 *
/// 2^23 rounds to an integer and leaves it in the lowest bits.
inline float fast_exp(float x) {
  constexpr float to_integer = 12582912.0f;
  const float clamped = x < -87.3f ? -87.3f : (x > 88.3f ? 88.3f : x);
  const float shifted = clamped * 1.44269504088896341f + to_integer, n = shifted - to_integer;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float result = (p * (r * r) + r + 1.0f) * as_float((as_bits(shifted) << 23) + (127u << 23));
  return x < -87.3f ? 0.0f : result;
}
inline float sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

template <class T>
void rms_norm(const T* x, const T* w, float eps, T* y, float* scale, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) squares += load(x[i]) * load(x[i]);
    const float s = 1.0f / __builtin_sqrtf(squares / float(width) + eps);
    scale[r] = s;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) store(y[i], load(x[i]) * s * load(w[i]));
  }
}

template <class T>
void rms_norm_backward(const T* dy, const T* x, const T* w, const float* scale, T* dx, float* dw, int64_t rows,
                       int64_t width) {
  for (int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width) {
    const float s = scale[r];
    float along = 0;
#pragma omp simd reduction(+ : along)
    for (int64_t i = 0; i < width; ++i) along += load(dy[i]) * load(w[i]) * load(x[i]);
    along *= s / float(width);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) store(dx[i], (load(dy[i]) * load(w[i]) - load(x[i]) * s * along) * s);
    if (!dw) continue;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) dw[i] += load(dy[i]) * load(x[i]) * s;
  }
}

template <class T>
void swiglu(const T* gate, const T* up, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(y[i], load(gate[i]) * sigmoid(load(gate[i])) * load(up[i]));
}

template <class T>
void swiglu_backward(const T* dy, const T* gate, const T* up, T* d_gate, T* d_up, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = load(gate[i]), d = load(dy[i]), s = sigmoid(g);
    store(d_up[i], d * g * s);
    store(d_gate[i], d * load(up[i]) * s * (1.0f + g * (1.0f - s)));
  }
}

template <class T>
void rotate(const T* x, const float* table, float direction, T* y, int64_t heads, int64_t width) {
  for (int64_t h = 0; h < heads; ++h, x += width, y += width)
#pragma omp simd
    for (int64_t i = 0; i < width; i += 2) {
      const float a = load(x[i]), b = load(x[i + 1]), c = table[i], s = direction * table[i + 1];
      store(y[i], a * c - b * s);
      store(y[i + 1], a * s + b * c);
    }
}

/// Relative to the largest logit, so that sums neither overflow nor lose digits for large logits. Far below it an
/// entropy's term is 0, even if the difference is infinite in fp32. A target that is none of the columns has
/// probability 0 here: an infinite loss and no hit.
template <bool with_entropy, class T>
void cross_entropy_rows(const T* logits, const int64_t* targets, float* loss, float* log_sum, float* entropy,
                        float* hit, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, logits += width) {
    float highest = load(logits[0]);
#pragma omp simd reduction(max : highest)
    for (int64_t i = 0; i < width; ++i) highest = load(logits[i]) > highest ? load(logits[i]) : highest;
    float sum = 0, along = 0;
    if constexpr (with_entropy) {
#pragma omp simd reduction(+ : sum, along)
      for (int64_t i = 0; i < width; ++i) {
        const float below = load(logits[i]) - highest, e = fast_exp(below);
        sum += e;
        along += e * (below < -100.0f ? -100.0f : below);
      }
    } else {
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += fast_exp(load(logits[i]) - highest);
    }
    const bool is_here = targets[r] >= 0 && targets[r] < width;
    const float log_of_sum = __builtin_logf(sum);
    const float below = is_here ? load(logits[targets[r]]) - highest : -__builtin_inff();
    log_sum[r] = highest + log_of_sum;
    loss[r] = log_of_sum - below;
    if constexpr (with_entropy) {
      const float h = log_of_sum - along / sum;
      entropy[r] = h < 0.0f ? 0.0f : h;
    }
    if (hit) hit[r] = below >= 0.0f ? 1.0f : 0.0f;
  }
}

template <class T>
void cross_entropy(const T* logits, const int64_t* targets, float* loss, float* log_sum, float* entropy, float* hit,
                   int64_t rows, int64_t width) {
  if (entropy)
    cross_entropy_rows<true>(logits, targets, loss, log_sum, entropy, hit, rows, width);
  else
    cross_entropy_rows<false>(logits, targets, loss, log_sum, entropy, hit, rows, width);
}

template <class T>
void cross_entropy_backward(T* logits, const int64_t* targets, const float* log_sum, const float* coefficient,
                            int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, logits += width) {
    const float shift = log_sum[r], factor = coefficient[r];
    const bool is_here = targets[r] >= 0 && targets[r] < width;
    const float of_target = is_here ? factor * (fast_exp(load(logits[targets[r]]) - shift) - 1.0f) : 0.0f;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) store(logits[i], factor * fast_exp(load(logits[i]) - shift));
    if (is_here) store(logits[targets[r]], of_target);
  }
}

constexpr int lanes = 16;
constexpr float far_below = -1e30f;

/// `count` keys, rounded up to whole vectors: a scalar tail would take as long as the vector loop.
inline int64_t whole_vectors(int64_t count, int64_t width) {
  const int64_t up = (count + lanes - 1) / lanes * lanes;
  return up < width ? up : width;
}

inline void clear(float* x, int64_t begin, int64_t end) {
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) x[i] = 0.0f;
}

/// x <- scale * x of the first `count` of `end` numbers, far_below for the others; returns the largest. Like the
/// functions below, in whole vectors of a fixed number of lanes: a loop of unknown length would get a scalar remainder.
inline float scaled(float* x, float scale, int64_t count, int64_t end) {
  float most[lanes];
  for (float& one : most) one = far_below;
  const auto scale_lane = [&](int64_t i, int lane, bool counts) __attribute__((always_inline)) {
    const float value = counts ? scale * x[i + lane] : far_below;
    x[i + lane] = value;
    most[lane] = value > most[lane] ? value : most[lane];
  };
  const int64_t whole = end / lanes * lanes;
  for (int64_t i = 0; i < whole; i += lanes) {
    const int left = count - i < lanes ? int(count - i) : lanes;
#pragma omp simd
    for (int lane = 0; lane < lanes; ++lane) scale_lane(i, lane, lane < left);
  }
  for (int64_t i = whole; i < end; ++i) scale_lane(whole, int(i - whole), i < count);
#pragma GCC unroll 4
  for (int half = lanes / 2; half > 0; half /= 2)
#pragma omp simd
    for (int lane = 0; lane < half; ++lane)
      most[lane] = most[lane + half] > most[lane] ? most[lane + half] : most[lane];
  return most[0];
}

inline float sum_of_lanes(float* sums) {
#pragma GCC unroll 4
  for (int half = lanes / 2; half > 0; half /= 2)
#pragma omp simd
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

inline float causal_softmax(float* x, float scale, int64_t count, int64_t width) {
  const int64_t end = whole_vectors(count, width), whole = end / lanes * lanes;
  const float highest = scaled(x, scale, count, end);
  float sums[lanes] = {};
  for (int64_t i = 0; i < whole; i += lanes)
#pragma omp simd
    for (int lane = 0; lane < lanes; ++lane) {
      x[i + lane] = fast_exp(x[i + lane] - highest);
      sums[lane] += x[i + lane];
    }
  for (int64_t i = whole; i < end; ++i) {
    x[i] = fast_exp(x[i] - highest);
    sums[i - whole] += x[i];
  }
  const float sum = sum_of_lanes(sums), share = 1.0f / sum;
#pragma omp simd
  for (int64_t i = 0; i < end; ++i) x[i] *= share;
  clear(x, end, width);
  return highest + __builtin_logf(sum);
}

inline void causal_softmax_backward(float* x, float* d, float scale, float log_sum, int64_t count, int64_t width) {
  const int64_t end = whole_vectors(count, width), whole = end / lanes * lanes;
  float sums[lanes] = {};
  const auto exp_lane = [&](int64_t i, int lane, bool counts) __attribute__((always_inline)) {
    x[i + lane] = fast_exp(counts ? scale * x[i + lane] - log_sum : far_below);
    d[i + lane] = counts ? d[i + lane] : 0.0f;
    sums[lane] += x[i + lane] * d[i + lane];
  };
  for (int64_t i = 0; i < whole; i += lanes) {
    const int left = count - i < lanes ? int(count - i) : lanes;
#pragma omp simd
    for (int lane = 0; lane < lanes; ++lane) exp_lane(i, lane, lane < left);
  }
  for (int64_t i = whole; i < end; ++i) exp_lane(whole, int(i - whole), i < count);
  const float along = sum_of_lanes(sums);
#pragma omp simd
  for (int64_t i = 0; i < end; ++i) d[i] = scale * x[i] * (d[i] - along);
  clear(x, end, width);
  clear(d, end, width);
}

template <class T>
void accumulate(float* sum, const T* value, bool first, int64_t count) {
  if (first) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] = load(value[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] += load(value[i]);
  }
}

template <int order>
double with_magnitude(double part, double x) {
  const double magnitude = __builtin_fabs(x);
  if (order == 0) return magnitude > part || magnitude != magnitude ? magnitude : part;
  return part + (order == 2 ? magnitude * magnitude : magnitude);
}

/// Partial results that are added up last let vectors do what the order of a single sum would forbid.
template <int order>
double norm_part_with_order(const float* x, int64_t count) {
  constexpr int64_t lanes = 32;
  double parts[lanes] = {};
  const int64_t whole = count - count % lanes;
  for (int64_t i = 0; i < whole; i += lanes) {
#pragma omp simd
    for (int64_t lane = 0; lane < lanes; ++lane) parts[lane] = with_magnitude<order>(parts[lane], x[i + lane]);
  }
  for (int64_t i = whole; i < count; ++i) parts[i - whole] = with_magnitude<order>(parts[i - whole], x[i]);
  double all = 0;
  constexpr int of_parts = order == 0 ? 0 : 1;
  for (const double part : parts) all = with_magnitude<of_parts>(all, part);
  return all;
}

inline double norm_part(const float* x, int order, int64_t count) {
  if (order == 0) return norm_part_with_order<0>(x, count);
  return order == 1 ? norm_part_with_order<1>(x, count) : norm_part_with_order<2>(x, count);
}

template <class T>
constexpr RowKernelTable<T> row_kernel_table() {
  return {&rms_norm<T>,      &rms_norm_backward<T>,      &swiglu<T>,      &swiglu_backward<T>,      &rotate<T>,
          &cross_entropy<T>, &cross_entropy_backward<T>, &causal_softmax, &causal_softmax_backward, &accumulate<T>,
          &norm_part};
}

}  // namespace

extern const RowKernelTable<float> float_rows;
extern const RowKernelTable<Bf16> bf16_rows;
const RowKernelTable<float> float_rows = row_kernel_table<float>();
const RowKernelTable<Bf16> bf16_rows = row_kernel_table<Bf16>();

}  // namespace wmtp::kernels::WMTP_ISA
