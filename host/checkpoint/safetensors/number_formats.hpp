// Bitwise conversion of weights between fp32, bf16 and fp16, and a look for numbers that are not finite.
#pragma once

#include <cstdint>
#include <string>

namespace wmtp {

/// Whether weights may have this safetensors dtype: F32, BF16 or F16.
bool is_weight_dtype(const std::string& dtype);

/// Exact conversion. `bytes` need not be aligned. Error(bug) for a dtype that is not a weight dtype.
void to_float(const std::string& dtype, const uint8_t* bytes, int64_t count, float* out);

/// The first element that is NaN or infinite; `count` if there is none. `bytes` and errors as above.
int64_t first_not_finite(const std::string& dtype, const uint8_t* bytes, int64_t count);

/// Rounds to nearest, ties to even, as PyTorch does; a NaN stays a NaN.
void to_bf16(const float* values, int64_t count, uint16_t* out);

}  // namespace wmtp
