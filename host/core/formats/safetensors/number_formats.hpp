// Weights as fp32, bf16 and fp16, converted by their bits. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <string>

namespace wmtp {

/// The safetensors dtypes that weights are read in: F32, BF16, F16.
bool is_weight_dtype(const std::string& dtype);

/// Exact. `bytes` need not be aligned. Error(bug) for another dtype.
void to_float(const std::string& dtype, const uint8_t* bytes, int64_t count, float* out);

/// To the nearest, ties to even, as PyTorch does; a NaN stays one.
void to_bf16(const float* values, int64_t count, uint16_t* out);

}  // namespace wmtp
