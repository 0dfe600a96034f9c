// Launches the kernels of rows.cuh on a stream. Each function returns before the kernel has run; cudaGetLastError
// reports whether it was launched. Matrices are contiguous, [rows, width]; type: element type of the void pointers. The
// tests' null device defines functions of the same names, which take precedence.
#pragma once

#include <cstdint>

namespace wmtp::cuda {

enum class Type { fp32, bf16, fp16 };

struct Launch {
  Type type;
  void* stream;
};

/// Whether the norm kernels support rows of this width: whole packs of 16 bytes, at most four per thread.
bool supports_norm(Type type, int64_t width);
/// Blocks of rms_norm_backward; independent of the device, so that sums have the same order on all devices.
inline int64_t norm_parts(int64_t rows) { return rows < 512 ? rows : 512; }

/// `x`, `weight` and `y` are aligned to 16 bytes, also in rms_norm_backward.
void rms_norm(Launch launch, const void* x, const void* weight, float eps, void* y, float* scale, int64_t rows,
              int64_t width);
/// dw_parts [norm_parts(rows), width] sum up to dw; null: skipped.
void rms_norm_backward(Launch launch, const void* dy, const void* x, const void* weight, const float* scale, void* dx,
                       float* dw_parts, int64_t rows, int64_t width);
void swiglu(Launch launch, const void* gate, const void* up, void* y, int64_t count);
void swiglu_backward(Launch launch, const void* dy, const void* gate, const void* up, void* d_gate, void* d_up,
                     int64_t count);
/// x [tokens, heads, width], whose positions repeat after `positions` tokens; table [positions, width/2] of (cos, sin).
void rotate(Launch launch, const void* x, const float* table, float direction, void* y, int64_t tokens, int64_t heads,
            int64_t width, int64_t positions);
/// entropy and hit may be null.
void cross_entropy(Launch launch, const void* logits, const int64_t* targets, float* loss, float* log_sum,
                   float* entropy, float* hit, int64_t rows, int64_t width);
void cross_entropy_backward(Launch launch, void* logits, const int64_t* targets, const float* log_sum,
                            const float* coefficient, int64_t rows, int64_t width);
/// parts [num_parts, count], summed in their order, to sum [count].
void sum_of_parts(Launch launch, const void* parts, int num_parts, float* sum, int64_t count);
/// factors [sequences, per_sequence]: 0 where the element's 32 random bits (model/torch/dropout.hpp) are below the
/// threshold, else `kept`. `before`: elements of a whole sequence before these.
void dropout_factors(Launch launch, uint64_t layer, uint64_t step, const int64_t* sequence, int64_t sequences,
                     int64_t before, int64_t per_sequence, int64_t threshold, float kept, void* factors);

}  // namespace wmtp::cuda
