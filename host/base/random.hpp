// Random numbers and hashes as functions of a position, so that a draw depends neither on the layout of ranks nor on
// earlier draws.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace wmtp {

/// Philox4x32-10. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
using PhiloxBlock = std::array<uint32_t, 4>;

constexpr PhiloxBlock philox(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
  PhiloxBlock c{uint32_t(counter_low), uint32_t(counter_low >> 32), uint32_t(counter_high),
                uint32_t(counter_high >> 32)};
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ k0, uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ k1, uint32_t(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// Uniform in [0,1) with 24 bits, exact in fp32.
inline float unit_float(uint32_t bits) { return float(bits >> 8) * 0x1p-24f; }

/// FNV-1a of a name, as a key.
inline uint64_t name_key(std::string_view name, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u ^ (seed * 0x9E3779B97F4A7C15u);
  for (const char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
  return hash;
}

/// A bijection: the finalizer of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
inline uint64_t mix64(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

/// Changes about half of the 64 bits when one bit of either argument changes.
inline uint64_t hash64(uint64_t a, uint64_t b) {
  return mix64(mix64(a + b + 0x9E3779B97F4A7C15u) + 0x2545F4914F6CDD1Du);
}

}  // namespace wmtp
