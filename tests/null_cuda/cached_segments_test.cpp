// CachedSegments against LibTorch's caching allocator, which takes its segments from the null device.
#include "memory/cached_segments.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace wmtp {
namespace {

namespace device = c10::cuda::CUDACachingAllocator;

constexpr int64_t MiB = 1 << 20;

/// Of every kind of segment, and beside the borders between them.
int64_t random_size(std::mt19937& random) {
  const auto between = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  constexpr int64_t borders[] = {1024, MiB, 2 * MiB, 10 * MiB, 20 * MiB};
  switch (between(0, 4)) {
    case 0:
      return between(1, 5000);
    case 1:
      return between(1, 2 * MiB);
    case 2:
      return between(MiB, 12 * MiB);
    case 3:
      return between(8 * MiB, 40 * MiB);
    default:
      return borders[between(0, 4)] + between(-1023, 1023);
  }
}

TEST(CachedSegments, AreThoseOfLibTorchAfterEachOfManyRandomCalls) {
  device::init(c10::cuda::device_count());
  const auto held = [] { return device::getDeviceStats(0).reserved_bytes[0].current; };
  for (unsigned seed = 0; seed < 5; ++seed) {
    device::emptyCache();
    ASSERT_EQ(held(), 0);
    std::mt19937 random(seed);
    CachedSegments segments;
    std::vector<void*> blocks;
    for (int call = 0; call < 4000; ++call) {
      if (!blocks.empty() && random() % 100 < (blocks.size() < 60 ? 45U : 60U)) {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        segments.free(blocks.back());
        device::raw_delete(blocks.back());
        blocks.pop_back();
      } else {
        const int64_t size = random_size(random);
        blocks.push_back(device::raw_alloc(size_t(size)));
        segments.allocate(blocks.back(), size);
      }
      ASSERT_EQ(segments.reserved(), held()) << "call " << call << ", seed " << seed;
    }
    for (void* block : blocks) device::raw_delete(block);
  }
}

}  // namespace
}  // namespace wmtp
