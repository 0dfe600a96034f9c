// CUDA kernels over rows of fp32, bf16 or fp16, the device's counterpart of model/torch/kernels/rows.hpp. Each element
// is read once where possible, computed in fp32 and rounded once. No atomics: every sum has a fixed order, so results
// are bitwise the same in every run and on every device.
//
// A block has `threads_per_block` threads. Elements are moved in packs of 16 bytes: pointers have that alignment, and
// rows are whole packs, unless a pack has one element. Compiled by nvcc, and by tests/unit/cuda for the CPU.
#pragma once

#include <cstdint>

#include "base/random.hpp"

namespace wmtp::cuda {

constexpr int threads_per_block = 256;
constexpr int warps_per_block = threads_per_block / 32;
constexpr unsigned full_warp_mask = 0xffffffffu;

__device__ inline float as_float(float x) { return x; }
__device__ inline float as_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float as_float(__half x) { return __half2float(x); }
__device__ inline void round_to(float& to, float x) { to = x; }
__device__ inline void round_to(__nv_bfloat16& to, float x) { to = __float2bfloat16(x); }
__device__ inline void round_to(__half& to, float x) { to = __float2half(x); }

/// Elements loaded or stored together.
template <class T, int count>
struct alignas(count * sizeof(T)) Pack {
  T values[count];
};
template <class T>
constexpr int pack_size = int(16 / sizeof(T));

template <int count, class T>
__device__ Pack<T, count> load(const T* from) {
  return *reinterpret_cast<const Pack<T, count>*>(from);
}
template <class T, int count>
__device__ void store(T* to, const Pack<T, count>& pack) {
  *reinterpret_cast<Pack<T, count>*>(to) = pack;
}

/// The sum over the block, in every thread: pairwise within a warp, then over warps in order.
__device__ inline float block_sum(float value) {
  __shared__ float warp_sums[warps_per_block];
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(full_warp_mask, value, lanes);
  __syncthreads();  // all threads have read the previous sum
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < warps_per_block; ++warp) sum += warp_sums[warp];
  return sum;
}

/// The column of this thread's i-th pack.
template <class T>
__device__ int64_t pack_column(int i) {
  return int64_t(i * threads_per_block + int(threadIdx.x)) * pack_size<T>;
}

/// y = x * scale * weight, scale[row] = 1 / sqrt(mean(x^2) + eps). One block per row, at most `packs` packs per thread.
template <class T, int packs>
__global__ void __launch_bounds__(threads_per_block)
    rms_norm(const T* x, const T* weight, float eps, T* y, float* scale, int64_t width) {
  constexpr int size = pack_size<T>;
  const int64_t row = blockIdx.x;
  Pack<T, size> kept[packs];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < packs; ++i) {
    const int64_t column = pack_column<T>(i);
    if (column >= width) continue;
    kept[i] = load<size>(x + row * width + column);
    for (const T& value : kept[i].values) squares += as_float(value) * as_float(value);
  }
  const float s = 1.0f / sqrtf(block_sum(squares) / float(width) + eps);
  if (threadIdx.x == 0) scale[row] = s;
#pragma unroll
  for (int i = 0; i < packs; ++i) {
    const int64_t column = pack_column<T>(i);
    if (column >= width) continue;
    const Pack<T, size> w = load<size>(weight + column);
    for (int j = 0; j < size; ++j) round_to(kept[i].values[j], as_float(kept[i].values[j]) * s * as_float(w.values[j]));
    store(y + row * width + column, kept[i]);
  }
}

/// dx; and in dw_parts[block] (fp32 [gridDim.x, width]; null: skipped) the sum of dy * x * scale over the block's rows,
/// in order. A block processes every gridDim.x-th row.
template <class T, int packs>
__global__ void __launch_bounds__(threads_per_block, /*minBlocksPerMultiprocessor=*/2)
    rms_norm_backward(const T* dy, const T* x, const T* weight, const float* scale, T* dx, float* dw_parts,
                      int64_t rows, int64_t width) {
  constexpr int size = pack_size<T>;
  float dw[packs * size] = {};
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float s = scale[row];
    Pack<T, size> gradient[packs], input[packs];
    float along = 0;
#pragma unroll
    for (int i = 0; i < packs; ++i) {
      const int64_t column = pack_column<T>(i);
      if (column >= width) continue;
      gradient[i] = load<size>(dy + row * width + column);
      input[i] = load<size>(x + row * width + column);
      const Pack<T, size> w = load<size>(weight + column);
      for (int j = 0; j < size; ++j) {
        const float with_input = as_float(gradient[i].values[j]) * as_float(input[i].values[j]);
        along += with_input * as_float(w.values[j]);
        dw[i * size + j] += with_input * s;
      }
    }
    along = block_sum(along) * s / float(width);
#pragma unroll
    for (int i = 0; i < packs; ++i) {
      const int64_t column = pack_column<T>(i);
      if (column >= width) continue;
      const Pack<T, size> w = load<size>(weight + column);
      for (int j = 0; j < size; ++j)
        round_to(
            gradient[i].values[j],
            (as_float(gradient[i].values[j]) * as_float(w.values[j]) - as_float(input[i].values[j]) * s * along) * s);
      store(dx + row * width + column, gradient[i]);
    }
  }
  if (!dw_parts) return;
#pragma unroll
  for (int i = 0; i < packs; ++i) {
    const int64_t column = pack_column<T>(i);
    if (column >= width) continue;
    for (int j = 0; j < size; ++j) dw_parts[int64_t(blockIdx.x) * width + column + j] = dw[i * size + j];
  }
}

/// The first element of this thread's pack of `size`, in a grid with one thread per pack.
template <int size>
__device__ int64_t first_element() {
  return (int64_t(blockIdx.x) * threads_per_block + threadIdx.x) * size;
}

/// y = silu(gate) * up.
template <class T, int size>
__global__ void __launch_bounds__(threads_per_block) swiglu(const T* gate, const T* up, T* y, int64_t count) {
  const int64_t at = first_element<size>();
  if (at >= count) return;
  Pack<T, size> g = load<size>(gate + at);
  const Pack<T, size> u = load<size>(up + at);
  for (int j = 0; j < size; ++j) {
    const float value = as_float(g.values[j]);
    round_to(g.values[j], value / (1.0f + __expf(-value)) * as_float(u.values[j]));
  }
  store(y + at, g);
}

template <class T, int size>
__global__ void __launch_bounds__(threads_per_block)
    swiglu_backward(const T* dy, const T* gate, const T* up, T* d_gate, T* d_up, int64_t count) {
  const int64_t at = first_element<size>();
  if (at >= count) return;
  const Pack<T, size> d = load<size>(dy + at);
  Pack<T, size> g = load<size>(gate + at), u = load<size>(up + at);
  for (int j = 0; j < size; ++j) {
    const float value = as_float(g.values[j]), d_y = as_float(d.values[j]), up_value = as_float(u.values[j]);
    const float sigmoid = 1.0f / (1.0f + __expf(-value));
    round_to(u.values[j], d_y * value * sigmoid);
    round_to(g.values[j], d_y * up_value * sigmoid * (1.0f + value * (1.0f - sigmoid)));
  }
  store(d_gate + at, g);
  store(d_up + at, u);
}

/// Rotates pairs (2i, 2i+1) of each head of x [tokens, heads, width] by `direction` times the angles of the token's
/// position, token % positions; table [positions, width/2] of (cos, sin). `size` is even and divides the width.
template <class T, int size>
__global__ void __launch_bounds__(threads_per_block)
    rotate(const T* x, const float* table, float direction, T* y, int64_t count, int64_t heads, int64_t width,
           int64_t positions) {
  const int64_t at = first_element<size>();
  if (at >= count) return;
  const float* angles = table + at / (heads * width) % positions * width + at % width;
  Pack<T, size> pack = load<size>(x + at);
  for (int j = 0; j < size; j += 2) {
    const float a = as_float(pack.values[j]), b = as_float(pack.values[j + 1]);
    const float c = angles[j], s = direction * angles[j + 1];
    round_to(pack.values[j], a * c - b * s);
    round_to(pack.values[j + 1], a * s + b * c);
  }
  store(y + at, pack);
}

/// Sums of exponentials relative to the highest value so far (Milakov and Gimelshein 2018), and of these times the
/// values: sum of e^(x-top), and of (x-top) e^(x-top).
struct OnlineSum {
  float top = -INFINITY, sum = 0, weighted = 0;

  __device__ void add(float x) {
    raise(x);
    const float below = x - top, e = __expf(below);
    sum += e;
    weighted += e * fmaxf(below, least);
  }
  __device__ void add(OnlineSum other) {
    raise(other.top);
    other.raise(top);
    sum += other.sum;
    weighted += other.weighted;
  }
  __device__ void raise(float to) {
    if (!(to > top)) return;
    if (sum > 0) {
      const float shift = fmaxf(top - to, least), factor = __expf(shift);
      weighted = factor * (weighted + shift * sum);
      sum *= factor;
    }
    top = to;
  }

  /// This far below the top, an exponential is 0 in fp32, and so is its product with the distance.
  static constexpr float least = -100.0f;
};

__device__ inline OnlineSum block_sum(OnlineSum mine) {
  __shared__ float warp_sums[3][warps_per_block];
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    OnlineSum other;
    other.top = __shfl_xor_sync(full_warp_mask, mine.top, lanes);
    other.sum = __shfl_xor_sync(full_warp_mask, mine.sum, lanes);
    other.weighted = __shfl_xor_sync(full_warp_mask, mine.weighted, lanes);
    mine.add(other);
  }
  const int warp = int(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) {
    warp_sums[0][warp] = mine.top;
    warp_sums[1][warp] = mine.sum;
    warp_sums[2][warp] = mine.weighted;
  }
  __syncthreads();
  OnlineSum all;
  for (int w = 0; w < warps_per_block; ++w) {
    OnlineSum part;
    part.top = warp_sums[0][w];
    part.sum = warp_sums[1][w];
    part.weighted = warp_sums[2][w];
    all.add(part);
  }
  return all;
}

/// Like Rows::cross_entropy (model/torch/kernels/rows.hpp); entropy and hit may be null. One block per row.
template <class T, int size>
__global__ void __launch_bounds__(threads_per_block)
    cross_entropy(const T* logits, const int64_t* targets, float* loss, float* log_sum, float* entropy, float* hit,
                  int64_t width) {
  const int64_t row = blockIdx.x;
  const T* x = logits + row * width;
  OnlineSum mine;
  for (int64_t column = int64_t(threadIdx.x) * size; column < width; column += threads_per_block * size) {
    const Pack<T, size> pack = load<size>(x + column);
    for (const T& value : pack.values) mine.add(as_float(value));
  }
  const OnlineSum all = block_sum(mine);
  if (threadIdx.x != 0) return;
  const int64_t target = targets[row];
  const bool is_here = target >= 0 && target < width;
  const float log_of_sum = logf(all.sum), below = is_here ? as_float(x[target]) - all.top : -INFINITY;
  loss[row] = log_of_sum - below;
  log_sum[row] = all.top + log_of_sum;
  if (entropy) entropy[row] = fmaxf(log_of_sum - all.weighted / all.sum, 0.0f);
  if (hit) hit[row] = below >= 0.0f ? 1.0f : 0.0f;
}

/// logits <- coefficient[row] * (exp(logits - log_sum[row]) - onehot(target[row])). One block per row.
template <class T, int size>
__global__ void __launch_bounds__(threads_per_block)
    cross_entropy_backward(T* logits, const int64_t* targets, const float* log_sum, const float* coefficient,
                           int64_t width) {
  const int64_t row = blockIdx.x, target = targets[row];
  T* x = logits + row * width;
  const float shift = log_sum[row], factor = coefficient[row];
  for (int64_t column = int64_t(threadIdx.x) * size; column < width; column += threads_per_block * size) {
    Pack<T, size> pack = load<size>(x + column);
    for (int j = 0; j < size; ++j)
      round_to(pack.values[j],
               factor * (__expf(as_float(pack.values[j]) - shift) - (column + j == target ? 1.0f : 0.0f)));
    store(x + column, pack);
  }
}

/// sum = parts[0] + parts[1] + ... in this order, of `count` elements each.
template <class T, int size>
__global__ void __launch_bounds__(threads_per_block)
    sum_of_parts(const T* parts, int num_parts, float* sum, int64_t count) {
  const int64_t at = first_element<size>();
  if (at >= count) return;
  Pack<float, size> total{};
  for (int part = 0; part < num_parts; ++part) {
    const Pack<T, size> pack = load<size>(parts + part * count + at);
    for (int j = 0; j < size; ++j)
      total.values[j] = part == 0 ? as_float(pack.values[j]) : total.values[j] + as_float(pack.values[j]);
  }
  store(sum + at, total);
}

/// Philox blocks that contain elements `before` to `before` + `per_sequence` of a sequence.
constexpr int64_t dropout_blocks(int64_t before, int64_t per_sequence) {
  return (before + per_sequence + 3) / 4 - before / 4;
}

/// 0 for elements whose random bits are below `threshold`, else `kept`; factors [sequences, per_sequence]. `before`:
/// elements of a whole sequence before these. A thread writes the four elements of one Philox block.
template <class T>
__global__ void __launch_bounds__(threads_per_block)
    dropout_factors(uint64_t layer, uint64_t step, const int64_t* sequence, int64_t sequences, int64_t before,
                    int64_t per_sequence, int64_t threshold, float kept, T* factors) {
  const int64_t blocks = dropout_blocks(before, per_sequence), at = first_element<1>();
  if (at >= sequences * blocks) return;
  const int64_t row = at / blocks, block = before / 4 + at % blocks;
  const PhiloxBlock bits = philox(layer, step << 40 ^ uint64_t(sequence[row]), uint64_t(block));
  Pack<T, 4> pack;
  for (int j = 0; j < 4; ++j) round_to(pack.values[j], int64_t(bits[size_t(j)]) < threshold ? 0.0f : kept);
  const int64_t first = block * 4 - before;  // negative if the block begins before these elements
  T* const row_factors = factors + row * per_sequence;
  if (before % 4 == 0 && per_sequence % 4 == 0) return store(row_factors + first, pack);
  for (int64_t j = 0; j < 4; ++j)
    if (first + j >= 0 && first + j < per_sequence) row_factors[first + j] = pack.values[j];
}

}  // namespace wmtp::cuda
