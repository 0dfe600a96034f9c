#include "memory/allocator.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <thread>

namespace wmtp {
namespace {

constexpr int64_t megabyte = 1 << 20;

at::Tensor bytes(int64_t size) { return at::empty({size}, at::kByte); }

int64_t address_space() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

class Allocator : public testing::Test {
 protected:
  void SetUp() override {
    install_allocator();
    reset_memory_peak();
    start_ = memory_usage();
  }
  int64_t live(MemoryCategory category) const {
    return memory_usage().live[int(category)] - start_.live[int(category)];
  }
  int64_t live_total() const { return memory_usage().live_total - start_.live_total; }
  MemoryUsage start_;
};

TEST_F(Allocator, CountsUnderTheInnermostScope) {
  at::Tensor logits, gathered, other;
  {
    const MemoryScope outer(MemoryCategory::gathered);
    {
      const MemoryScope inner(MemoryCategory::logits);
      logits = bytes(3 * megabyte);
    }
    gathered = bytes(2 * megabyte);
  }
  other = bytes(megabyte);
  EXPECT_EQ(live(MemoryCategory::logits), 3 * megabyte);
  EXPECT_EQ(live(MemoryCategory::gathered), 2 * megabyte);
  EXPECT_EQ(live(MemoryCategory::other), megabyte);
  EXPECT_EQ(live_total(), 6 * megabyte);
}

TEST_F(Allocator, AFreeCountsInTheBlocksCategory) {
  at::Tensor tensor;
  {
    const MemoryScope scope(MemoryCategory::gradients);
    tensor = bytes(megabyte);
  }
  const MemoryScope scope(MemoryCategory::logits);
  tensor.reset();
  EXPECT_EQ(live(MemoryCategory::gradients), 0);
  EXPECT_EQ(live(MemoryCategory::logits), 0);
  EXPECT_EQ(live_total(), 0);
}

TEST_F(Allocator, AFreeByAnotherThreadIsCounted) {
  at::Tensor tensor;
  {
    const MemoryScope scope(MemoryCategory::communication);
    tensor = bytes(megabyte);
  }
  std::thread([moved = std::move(tensor)]() mutable { moved.reset(); }).join();
  EXPECT_EQ(live(MemoryCategory::communication), 0);
  EXPECT_EQ(live_total(), 0);
}

TEST_F(Allocator, AScopeAppliesToItsThreadOnly) {
  const MemoryScope scope(MemoryCategory::optimizer);
  at::Tensor tensor;
  std::thread([&] { tensor = bytes(megabyte); }).join();
  EXPECT_EQ(live(MemoryCategory::optimizer), 0);
  EXPECT_EQ(live(MemoryCategory::other), megabyte);
}

TEST_F(Allocator, PeaksAreKeptPerCategoryAndForTheSum) {
  const auto use = [](MemoryCategory category, int64_t size) {
    const MemoryScope scope(category);
    bytes(size);
  };
  use(MemoryCategory::logits, 3 * megabyte);
  use(MemoryCategory::gradients, 2 * megabyte);
  const MemoryUsage usage = memory_usage();
  EXPECT_EQ(usage.peak[int(MemoryCategory::logits)] - start_.live[int(MemoryCategory::logits)], 3 * megabyte);
  EXPECT_EQ(usage.peak[int(MemoryCategory::gradients)] - start_.live[int(MemoryCategory::gradients)], 2 * megabyte);
  EXPECT_EQ(usage.peak_total - start_.live_total, 3 * megabyte) << "never live at the same time";
  reset_memory_peak();
  EXPECT_EQ(memory_usage().peak_total, memory_usage().live_total);
}

TEST_F(Allocator, APhaseKeepsItsPeakByCategory) {
  const auto make = [](MemoryCategory category, int64_t size) {
    const MemoryScope scope(category);
    return bytes(size);
  };
  {
    const MemoryPhase phase("forward");
    at::Tensor kept = make(MemoryCategory::activations, 3 * megabyte);
    make(MemoryCategory::logits, 2 * megabyte);  // freed at once: 5 MB is the most
    kept.reset();
    const at::Tensor later =
        make(MemoryCategory::logits, 4 * megabyte);  // its category's peak, but not at the phase's peak
  }
  const MemorySnapshot snapshot = memory_usage().phases.at("forward");
  EXPECT_EQ(snapshot.total - start_.live_total, 5 * megabyte);
  EXPECT_EQ(snapshot.bytes[int(MemoryCategory::activations)] - start_.live[int(MemoryCategory::activations)],
            3 * megabyte);
  EXPECT_EQ(snapshot.bytes[int(MemoryCategory::logits)] - start_.live[int(MemoryCategory::logits)], 2 * megabyte);
  EXPECT_EQ(std::accumulate(snapshot.bytes.begin(), snapshot.bytes.end(), int64_t{0}), snapshot.total);
}

TEST_F(Allocator, LiveBytesAtItsBeginningCountInAPhase) {
  at::Tensor found = bytes(3 * megabyte);
  {
    const MemoryPhase phase("optimizer");
    found.reset();
  }
  EXPECT_EQ(memory_usage().phases.at("optimizer").total - start_.live_total, 3 * megabyte);
}

TEST_F(Allocator, APhaseContinuesAfterANestedOne) {
  const auto most = [&](const char* phase) { return memory_usage().phases.at(phase).total - start_.live_total; };
  const MemoryPhase outer("outer");
  at::Tensor left;
  {
    const MemoryPhase inner("inner");
    left = bytes(2 * megabyte);
    bytes(3 * megabyte);
  }
  EXPECT_EQ(most("inner"), 5 * megabyte);
  EXPECT_EQ(most("outer"), 2 * megabyte) << "bytes left by the inner phase, not its peak";
  bytes(4 * megabyte);
  EXPECT_EQ(most("outer"), 6 * megabyte);
}

TEST_F(Allocator, AllocationsOfOtherThreadsCountInThePhase) {
  const MemoryPhase phase("waiting");
  std::thread([] { bytes(7 * megabyte); }).join();
  EXPECT_EQ(memory_usage().phases.at("waiting").total - start_.live_total, 7 * megabyte);
}

TEST_F(Allocator, AResetDropsAllPhasesButTheCurrentOne) {
  { const MemoryPhase past("past"); }
  const MemoryPhase present("present");
  bytes(megabyte);
  reset_memory_peak();
  const MemoryUsage usage = memory_usage();
  ASSERT_EQ(usage.phases.size(), 1u);
  EXPECT_EQ(usage.phases.at("present").total, usage.live_total);
}

TEST_F(Allocator, AWatchReportsGrowthOnceAndNoSmallOne) {
  MemoryWatch watch;
  const MemoryPhase phase("watched");
  const at::Tensor base = bytes(100 * megabyte);
  EXPECT_TRUE(watch.grew());
  EXPECT_FALSE(watch.grew());
  bytes(4 * megabyte);
  EXPECT_FALSE(watch.grew());
  bytes(20 * megabyte);
  EXPECT_TRUE(watch.grew());
  EXPECT_FALSE(watch.grew());
}

TEST_F(Allocator, TheLargestBlockIsTheLargestRequestSinceTheReset) {
  bytes(megabyte);
  bytes(5 * megabyte);
  bytes(2 * megabyte);
  EXPECT_EQ(memory_usage().largest_block, 5 * megabyte);
  reset_memory_peak();
  bytes(megabyte);
  EXPECT_EQ(memory_usage().largest_block, megabyte);
}

TEST_F(Allocator, AFreedBlockIsReusedAndCountedInItsNewCategory) {
  at::Tensor first = bytes(40 * megabyte);
  const void* place = first.data_ptr();
  first.reset();
  const MemoryScope scope(MemoryCategory::gathered);
  const at::Tensor second = bytes(40 * megabyte);
  EXPECT_EQ(second.data_ptr(), place);
  EXPECT_EQ(live(MemoryCategory::gathered), 40 * megabyte);
}

TEST_F(Allocator, ALargeBlockIsNotUsedForASmallRequest) {
  at::Tensor first = bytes(48 * megabyte);
  const void* place = first.data_ptr();
  first.reset();
  EXPECT_NE(bytes(megabyte).data_ptr(), place);
}

TEST_F(Allocator, BlocksAreAlignedAndWritable) {
  std::vector<at::Tensor> tensors;
  for (int64_t size : {1, 63, 64, 65, 4095, 65536, 65537, 1000003}) {
    tensors.push_back(bytes(size).fill_(size % 251));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors.back().data_ptr()) % 64, 0U) << size;
  }
  for (const at::Tensor& tensor : tensors) EXPECT_TRUE(tensor.eq(tensor.numel() % 251).all().item<bool>());
}

TEST_F(Allocator, AnEmptyTensorTakesNoMemory) {
  const at::Tensor nothing = at::empty({0, 5});
  EXPECT_EQ(live_total(), 0);
}

TEST_F(Allocator, CountsAreExactWithManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      const MemoryScope scope{MemoryCategory(t)};
      for (int i = 0; i < 200; ++i) bytes(1000 * (1 + (i * 37 + t) % 200));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(live_total(), 0);
  for (int i = 0; i < num_memory_categories; ++i) EXPECT_EQ(live(MemoryCategory(i)), 0) << to_string(MemoryCategory(i));
}

TEST(ResidentMemory, GrowsWithTouchedPages) {
  const int64_t before = resident_bytes();
  const std::vector<char> touched(64 * megabyte, 1);  // not a tensor: the allocator might first free other blocks
  EXPECT_GT(resident_bytes(), before + 48 * megabyte);
  EXPECT_GE(peak_resident_bytes(), resident_bytes());
}

TEST_F(Allocator, BlocksOfManySizesDoNotAccumulate) {
  const int64_t before = resident_bytes(), largest = 256 * megabyte;
  for (int64_t size = 32 * megabyte; size <= largest; size += 8 * megabyte) bytes(size).fill_(1);  // 4 GB in total
  EXPECT_LT(resident_bytes() - before, 2 * largest);
}

#if !defined(__SANITIZE_ADDRESS__)  // which ends a program that exceeds its address space
TEST_F(Allocator, FreeBlocksAreGivenBackBeforeMemoryIsSaidNotToSuffice) {
  const pid_t child = fork();
  if (child == 0) {
    bytes(256 * megabyte);
    rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = rlim_t(address_space() + 32 * megabyte);
    setrlimit(RLIMIT_AS, &limit);
    try {
      bytes(128 * megabyte);
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}
#endif

TEST_F(Allocator, ABlockUsedForASmallerTensorKeepsItsCapacity) {
  std::vector<at::Tensor> held;
  for (int round = 0; round < 3; ++round) {
    held.clear();
    for (int64_t i = 0; i < 40; ++i) held.push_back(bytes((3 + (i + round) % 7) * megabyte).fill_(i));
    for (int64_t i = 0; i < 40; ++i) EXPECT_TRUE(held[size_t(i)].eq(i).all().item<bool>());
  }
}

TEST_F(Allocator, ADeviceBlockIsCountedInItsScopeUntilFreedByAddress) {
  int first = 0, second = 0;
  {
    const MemoryScope scope(MemoryCategory::gathered);
    device_block_allocated(&first, 3 * megabyte);
  }
  device_block_allocated(&second, megabyte);
  EXPECT_EQ(live(MemoryCategory::gathered), 3 * megabyte);
  EXPECT_EQ(live(MemoryCategory::other), megabyte);
  device_block_freed(&first);
  device_block_freed(&first);  // of another allocator, or from before counting
  EXPECT_EQ(live(MemoryCategory::gathered), 0);
  device_block_freed(&second);
  EXPECT_EQ(live_total(), 0);
}

TEST_F(Allocator, HostTensorsAreNotCountedWhenDeviceMemoryIs) {
  const auto counted = [] {
    const at::Tensor before = bytes(megabyte);
    const int64_t then = memory_usage().live_total;
    count_device_memory();
    const at::Tensor after = bytes(5 * megabyte);
    return memory_usage().live_total - then;
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(counted() == 0 ? 0 : 1), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace wmtp
