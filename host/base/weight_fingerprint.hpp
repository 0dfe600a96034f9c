// Fingerprint of weights: a sum over elements of a hash of (name, element, bits), mod 2^64, so that parts of a tensor
// add up to what the whole of it would say, in any order. Tells weights apart that were not made to be mistaken for one
// another; it is no cryptographic hash.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "base/philox.hpp"

namespace wmtp {

/// A bijection that spreads every bit over all: the finalizer of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
inline uint64_t spread_bits(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

/// Of elements [begin, begin + count) of the flattened parameter.
inline uint64_t fingerprint(const std::string& name, int64_t begin, const float* values, int64_t count) {
  const uint64_t key = spread_bits(name_key(name, 0)) + uint64_t(begin);
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += spread_bits(spread_bits(key + uint64_t(i)) ^ std::bit_cast<uint32_t>(values[i]));
  return sum;
}

/// Sixteen digits, as adapter.json and checkpoints write a model's fingerprint.
inline std::string fingerprint_text(uint64_t fingerprint) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 0; i < 16; ++i) text[i] = digits[fingerprint >> (60 - 4 * i) & 15];
  return text;
}

}  // namespace wmtp
