// See number_formats.hpp. The loops have no branches, so that the compiler vectorizes them.
#include "checkpoint/safetensors/number_formats.hpp"

#include <bit>
#include <cstring>

#include "base/error.hpp"

namespace wmtp {
namespace {

uint16_t bits_at(const uint8_t* bytes, int64_t i) {
  uint16_t bits;
  std::memcpy(&bits, bytes + 2 * i, sizeof bits);
  return bits;
}

/// Exponent and mantissa shifted into fp32 position give the number times 2^-112, subnormals included; infinities and
/// NaNs then get the largest exponent.
float from_f16(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffu, sign = uint32_t(half & 0x8000u) << 16;
  const uint32_t scaled = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f);
  return std::bit_cast<float>(scaled | sign | (magnitude >= 0x7c00u ? 0x7f800000u : 0u));
}

uint16_t bf16_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return uint16_t(is_nan ? bits >> 16 | 0x40u : rounded);
}

/// `infinity`: the bits of the exponent. A number without its sign, plus the lowest of them, reaches the sign's bit if
/// it is infinite or NaN.
template <class Bits, Bits infinity>
int64_t first_not_finite(const uint8_t* bytes, int64_t count) {
  constexpr Bits sign = Bits(1) << (8 * sizeof(Bits) - 1), carry = Bits(sign - infinity);
  constexpr int64_t block = 256;  // a constant, because the compiler vectorizes no loop of another length
  const auto bits_of = [&](int64_t i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * int64_t(sizeof bits), sizeof bits);
    return bits;
  };
  const auto reach = [&](int64_t i) { return Bits((bits_of(i) & Bits(~sign)) + carry); };
  int64_t begin = 0;
  for (; begin + block <= count; begin += block) {
    Bits all = 0;
    for (int64_t i = 0; i < block; ++i) all |= reach(begin + i);
    if (all & sign) break;
  }
  while (begin < count && !(reach(begin) & sign)) ++begin;
  return begin;
}

}  // namespace

bool is_weight_dtype(const std::string& dtype) { return dtype == "F32" || dtype == "BF16" || dtype == "F16"; }

void to_float(const std::string& dtype, const uint8_t* bytes, int64_t count, float* out) {
  if (dtype == "F32") {
    std::memcpy(out, bytes, size_t(4 * count));
  } else if (dtype == "BF16") {
    for (int64_t i = 0; i < count; ++i) out[i] = std::bit_cast<float>(uint32_t(bits_at(bytes, i)) << 16);
  } else if (dtype == "F16") {
    for (int64_t i = 0; i < count; ++i) out[i] = from_f16(bits_at(bytes, i));
  } else {
    throw Error(ExitStatus::bug, "dtype " + dtype + " cannot be converted to fp32");
  }
}

int64_t first_not_finite(const std::string& dtype, const uint8_t* bytes, int64_t count) {
  if (dtype == "F32") return first_not_finite<uint32_t, 0x7f800000u>(bytes, count);
  if (dtype == "BF16") return first_not_finite<uint16_t, 0x7f80u>(bytes, count);
  if (dtype == "F16") return first_not_finite<uint16_t, 0x7c00u>(bytes, count);
  throw Error(ExitStatus::bug, "dtype " + dtype + " is none of a weight");
}

void to_bf16(const float* values, int64_t count, uint16_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = bf16_of(values[i]);
}

}  // namespace wmtp
