// One good 64-bit mixing function, so that what is drawn is a function of where it stands and of nothing before it.
#pragma once

#include <cstdint>

namespace wmtp {

/// Changes about half of the 64 bits when one bit of either argument changes (the finalizer of splitmix64, twice).
inline uint64_t hash64(uint64_t a, uint64_t b) {
  uint64_t x = a;
  for (uint64_t next : {b + 0x9e3779b97f4a7c15u, uint64_t{0x2545f4914f6cdd1du}}) {
    x += next;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
  }
  return x;
}

}  // namespace wmtp
