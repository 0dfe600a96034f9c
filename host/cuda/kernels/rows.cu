// Launches the kernels of rows.hpp. Compiled by nvcc, without LibTorch's headers.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "cuda/kernels/rows.cuh"
#include "cuda/kernels/rows.hpp"

namespace wmtp::cuda {
namespace {

constexpr int max_packs = 4;  // per thread; more would need over 128 registers

template <class... Pointers>
bool are_aligned(Pointers... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

/// Calls call.template operator()<T>().
template <class Call>
void by_type(Type type, Call call) {
  switch (type) {
    case Type::fp32:
      return call.template operator()<float>();
    case Type::bf16:
      return call.template operator()<__nv_bfloat16>();
    case Type::fp16:
      return call.template operator()<__half>();
  }
}

template <class T>
const T* in(const void* pointer) {
  return static_cast<const T*>(pointer);
}
template <class T>
T* out(void* pointer) {
  return static_cast<T*>(pointer);
}
cudaStream_t launch_stream(Launch launch) { return static_cast<cudaStream_t>(launch.stream); }

/// The number of blocks with one thread per pack of `size` elements.
unsigned blocks_for(int64_t count, int size) {
  return unsigned((count + int64_t(threads_per_block) * size - 1) / (int64_t(threads_per_block) * size));
}

/// Calls call.template operator()<T, packs>() with 1, 2 or 4 packs per thread.
template <class Call>
void by_width(Type type, int64_t width, Call call) {
  by_type(type, [&]<class T>() {
    const int64_t of_thread = (width + threads_per_block * pack_size<T> - 1) / (threads_per_block * pack_size<T>);
    if (of_thread <= 1) return call.template operator()<T, 1>();
    if (of_thread <= 2) return call.template operator()<T, 2>();
    return call.template operator()<T, max_packs>();
  });
}

/// Calls call.template operator()<T, size>() with whole packs if `has_packs`, else with `least` elements.
template <int least, class Call>
void by_pack(Type type, int64_t multiple, bool aligned, Call call) {
  by_type(type, [&]<class T>() {
    if (aligned && multiple % pack_size<T> == 0) return call.template operator()<T, pack_size<T>>();
    return call.template operator()<T, least>();
  });
}

int element_size(Type type) { return type == Type::fp32 ? 4 : 2; }

}  // namespace

bool supports_norm(Type type, int64_t width) {
  const int64_t size = 16 / element_size(type);
  return width % size == 0 && width <= max_packs * threads_per_block * size;
}

void rms_norm(Launch launch, const void* x, const void* weight, float eps, void* y, float* scale, int64_t rows,
              int64_t width) {
  if (rows == 0) return;
  by_width(launch.type, width, [&]<class T, int packs>() {
    rms_norm<T, packs><<<unsigned(rows), threads_per_block, 0, launch_stream(launch)>>>(in<T>(x), in<T>(weight), eps,
                                                                                        out<T>(y), scale, width);
  });
}

void rms_norm_backward(Launch launch, const void* dy, const void* x, const void* weight, const float* scale, void* dx,
                       float* dw_parts, int64_t rows, int64_t width) {
  if (rows == 0) return;
  by_width(launch.type, width, [&]<class T, int packs>() {
    rms_norm_backward<T, packs><<<unsigned(norm_parts(rows)), threads_per_block, 0, launch_stream(launch)>>>(
        in<T>(dy), in<T>(x), in<T>(weight), scale, out<T>(dx), dw_parts, rows, width);
  });
}

void swiglu(Launch launch, const void* gate, const void* up, void* y, int64_t count) {
  if (count == 0) return;
  by_pack<1>(launch.type, count, are_aligned(gate, up, y), [&]<class T, int size>() {
    swiglu<T, size><<<blocks_for(count, size), threads_per_block, 0, launch_stream(launch)>>>(in<T>(gate), in<T>(up),
                                                                                              out<T>(y), count);
  });
}

void swiglu_backward(Launch launch, const void* dy, const void* gate, const void* up, void* d_gate, void* d_up,
                     int64_t count) {
  if (count == 0) return;
  by_pack<1>(launch.type, count, are_aligned(dy, gate, up, d_gate, d_up), [&]<class T, int size>() {
    swiglu_backward<T, size><<<blocks_for(count, size), threads_per_block, 0, launch_stream(launch)>>>(
        in<T>(dy), in<T>(gate), in<T>(up), out<T>(d_gate), out<T>(d_up), count);
  });
}

void rotate(Launch launch, const void* x, const float* table, float direction, void* y, int64_t tokens, int64_t heads,
            int64_t width, int64_t positions) {
  const int64_t count = tokens * heads * width;
  if (count == 0) return;
  by_pack<2>(launch.type, width, are_aligned(x, y), [&]<class T, int size>() {
    rotate<T, size><<<blocks_for(count, size), threads_per_block, 0, launch_stream(launch)>>>(
        in<T>(x), table, direction, out<T>(y), count, heads, width, positions);
  });
}

void cross_entropy(Launch launch, const void* logits, const int64_t* targets, float* loss, float* log_sum,
                   float* entropy, float* hit, int64_t rows, int64_t width) {
  if (rows == 0) return;
  by_pack<1>(launch.type, width, are_aligned(logits), [&]<class T, int size>() {
    cross_entropy<T, size><<<unsigned(rows), threads_per_block, 0, launch_stream(launch)>>>(
        in<T>(logits), targets, loss, log_sum, entropy, hit, width);
  });
}

void cross_entropy_backward(Launch launch, void* logits, const int64_t* targets, const float* log_sum,
                            const float* coefficient, int64_t rows, int64_t width) {
  if (rows == 0) return;
  by_pack<1>(launch.type, width, are_aligned(logits), [&]<class T, int size>() {
    cross_entropy_backward<T, size><<<unsigned(rows), threads_per_block, 0, launch_stream(launch)>>>(
        out<T>(logits), targets, log_sum, coefficient, width);
  });
}

void sum_of_parts(Launch launch, const void* parts, int num_parts, float* sum, int64_t count) {
  if (count == 0) return;
  by_pack<1>(launch.type, count, are_aligned(parts, sum), [&]<class T, int size>() {
    sum_of_parts<T, size>
        <<<blocks_for(count, size), threads_per_block, 0, launch_stream(launch)>>>(in<T>(parts), num_parts, sum, count);
  });
}

void dropout_factors(Launch launch, uint64_t layer, uint64_t step, const int64_t* sequence, int64_t sequences,
                     int64_t before, int64_t per_sequence, int64_t threshold, float kept, void* factors) {
  const int64_t blocks = sequences * dropout_blocks(before, per_sequence);
  if (blocks == 0) return;
  by_type(launch.type, [&]<class T>() {
    dropout_factors<T><<<blocks_for(blocks, 1), threads_per_block, 0, launch_stream(launch)>>>(
        layer, step, sequence, sequences, before, per_sequence, threshold, kept, out<T>(factors));
  });
}

}  // namespace wmtp::cuda
