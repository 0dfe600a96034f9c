// A 64-bit hash, so that a random draw depends only on its position and not on earlier draws.
#pragma once

#include <cstdint>

namespace wmtp {

/// A bijection: the finalizer of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
inline uint64_t spread_bits(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

/// Changes about half of the 64 bits when one bit of either argument changes.
inline uint64_t hash64(uint64_t a, uint64_t b) {
  return spread_bits(spread_bits(a + b + 0x9E3779B97F4A7C15u) + 0x2545F4914F6CDD1Du);
}

}  // namespace wmtp
