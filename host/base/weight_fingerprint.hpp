// Fingerprint of weights: the sum over elements of a hash of (name, element, bits), mod 2^64, so that the fingerprints
// of a tensor's parts, in any order, add up to the tensor's. Not a cryptographic hash.
#pragma once

#include <bit>
#include <cinttypes>
#include <cstdint>
#include <string>

#include "base/random.hpp"
#include "base/text.hpp"

namespace wmtp {

/// The fingerprint of elements [begin, begin + count) of the flattened parameter.
inline uint64_t fingerprint(const std::string& name, int64_t begin, const float* values, int64_t count) {
  const uint64_t key = mix64(name_key(name, 0)) + uint64_t(begin);
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += mix64(mix64(key + uint64_t(i)) ^ std::bit_cast<uint32_t>(values[i]));
  return sum;
}

/// Sixteen hexadecimal digits, as in adapter.json and in checkpoints.
inline std::string fingerprint_text(uint64_t fingerprint) { return printed("%016" PRIx64, fingerprint); }

}  // namespace wmtp
