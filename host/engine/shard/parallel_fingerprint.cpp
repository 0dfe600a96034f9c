#include "engine/shard/parallel_fingerprint.hpp"

#include <ATen/Parallel.h>

#include <atomic>

#include "base/weight_fingerprint.hpp"

namespace wmtp {

uint64_t parallel_fingerprint(const std::string& name, int64_t begin, const std::vector<float>& values) {
  std::atomic<uint64_t> sum{0};
  at::parallel_for(0, int64_t(values.size()), 1 << 16, [&](int64_t first, int64_t last) {
    sum += fingerprint(name, begin + first, values.data() + first, last - first);
  });
  return sum;
}

}  // namespace wmtp
