#include "shard/fingerprint.hpp"

#include <ATen/Parallel.h>

#include <atomic>
#include <bit>

#include "base/philox.hpp"

namespace wmtp {
namespace {

/// A bijection that spreads every bit over all: the finalizer of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
uint64_t spread(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

}  // namespace

uint64_t fingerprint(const std::string& name, int64_t begin, const std::vector<float>& values) {
  const uint64_t key = spread(name_key(name, 0)) + uint64_t(begin);
  std::atomic<uint64_t> sum{0};
  at::parallel_for(0, int64_t(values.size()), 1 << 16, [&](int64_t first, int64_t last) {
    uint64_t part = 0;
    for (int64_t i = first; i < last; ++i)
      part += spread(spread(key + uint64_t(i)) ^ std::bit_cast<uint32_t>(values[size_t(i)]));
    sum += part;
  });
  return sum;
}

}  // namespace wmtp
