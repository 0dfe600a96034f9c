#include "memory/cached_segments.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace wmtp {
namespace {

constexpr int64_t MiB = 1 << 20;

/// Blocks by number, in the order of their allocation.
class Blocks {
 public:
  int take(int64_t bytes, int count = 1) {
    for (int i = 0; i < count; ++i) segments_.allocate(key(++last_), bytes);
    return last_;
  }
  void free(std::initializer_list<int> blocks) {
    for (const int block : blocks) segments_.free(key(block));
  }
  int64_t reserved() const { return segments_.reserved(); }

 private:
  static const void* key(int block) { return reinterpret_cast<const void*>(intptr_t(block)); }
  CachedSegments segments_;
  int last_ = 0;
};

TEST(CachedSegments, ASmallSegmentHolds4096BlocksOf512Bytes) {
  Blocks blocks;
  blocks.take(1, 2048);
  blocks.take(512, 2048);
  EXPECT_EQ(blocks.reserved(), 2 * MiB);
  blocks.take(1);
  EXPECT_EQ(blocks.reserved(), 4 * MiB);
}

TEST(CachedSegments, ABlockOf513BytesTakes1024) {
  Blocks blocks;
  blocks.take(513, 2048);
  EXPECT_EQ(blocks.reserved(), 2 * MiB);
  blocks.take(1);
  EXPECT_EQ(blocks.reserved(), 4 * MiB);
}

TEST(CachedSegments, BlocksOfAtMost1MiBShareSegmentsOf2MiB) {
  Blocks blocks;
  blocks.take(MiB, 2);
  EXPECT_EQ(blocks.reserved(), 2 * MiB);
  blocks.take(MiB + 1);
  EXPECT_EQ(blocks.reserved(), 22 * MiB);
}

TEST(CachedSegments, BlocksBelow10MiBShareSegmentsOf20MiB) {
  Blocks blocks;
  blocks.take(10 * MiB - 512, 2);
  EXPECT_EQ(blocks.reserved(), 20 * MiB);
  blocks.take(MiB + 1);
  EXPECT_EQ(blocks.reserved(), 40 * MiB) << "1,024 bytes are left in the first one";
}

TEST(CachedSegments, LargerBlocksHaveSegmentsOfTheirSizeRoundedUpTo2MiB) {
  const auto reserved_for = [](int64_t bytes) {
    Blocks blocks;
    blocks.take(bytes);
    return blocks.reserved();
  };
  EXPECT_EQ(reserved_for(10 * MiB - 511), 10 * MiB) << "rounded up to 512 bytes first";
  EXPECT_EQ(reserved_for(10 * MiB), 10 * MiB);
  EXPECT_EQ(reserved_for(10 * MiB + 1), 12 * MiB);
  EXPECT_EQ(reserved_for(12 * MiB + 1), 14 * MiB);
}

TEST(CachedSegments, ASmallBlockLeavesARestOf512Bytes) {
  Blocks blocks;
  blocks.take(MiB);
  blocks.take(MiB - 512);
  blocks.take(512);
  EXPECT_EQ(blocks.reserved(), 2 * MiB);
}

TEST(CachedSegments, ALargeBlockLeavesARestAbove1MiB) {
  Blocks blocks;
  blocks.free({blocks.take(12 * MiB)});
  blocks.take(11 * MiB - 512);
  blocks.take(MiB + 512);
  EXPECT_EQ(blocks.reserved(), 12 * MiB);
}

TEST(CachedSegments, SmallBlocksAreNotTakenFromLargeSegments) {
  Blocks blocks;
  blocks.free({blocks.take(12 * MiB)});
  blocks.take(MiB);
  EXPECT_EQ(blocks.reserved(), 14 * MiB);
}

TEST(CachedSegments, TheSmallestFreeBlockThatIsLargeEnoughIsTaken) {
  Blocks blocks;
  blocks.take(14 * MiB);
  blocks.take(12 * MiB);
  blocks.free({1, 2});
  blocks.take(12 * MiB);
  blocks.take(14 * MiB);
  EXPECT_EQ(blocks.reserved(), 26 * MiB);
}

TEST(CachedSegments, OfEqualFreeBlocksThatWithTheLowestAddressIsTaken) {
  Blocks blocks;
  blocks.take(5 * MiB, 8);  // two segments
  blocks.free({6, 2});
  blocks.take(5 * MiB);  // where the second was
  blocks.free({5});
  blocks.take(9 * MiB);  // where the fifth and sixth were
  EXPECT_EQ(blocks.reserved(), 40 * MiB);
}

TEST(CachedSegments, AFreedBlockJoinsTheFreeBlocksOnBothSides) {
  for (const auto& order : {std::vector{1, 2, 3}, {3, 2, 1}, {1, 3, 2}, {2, 1, 3}}) {
    Blocks blocks;
    blocks.take(3 * MiB, 6);
    for (const int block : order) blocks.free({block});
    blocks.take(9 * MiB);
    EXPECT_EQ(blocks.reserved(), 20 * MiB);
  }
}

TEST(CachedSegments, BlocksOfDifferentSegmentsDoNotJoin) {
  Blocks blocks;
  blocks.take(12 * MiB, 2);
  blocks.free({1, 2});
  blocks.take(24 * MiB);
  EXPECT_EQ(blocks.reserved(), 48 * MiB);
}

TEST(CachedSegments, AreKeptWhenTheirBlocksAreFreed) {
  Blocks blocks;
  blocks.free({blocks.take(100 * MiB)});
  EXPECT_EQ(blocks.reserved(), 100 * MiB);
}

TEST(CachedSegments, ABlockThatIsUnknownIsNotFreed) {
  Blocks blocks;
  blocks.take(2 * MiB);
  blocks.free({7, 1, 1});
  blocks.take(20 * MiB);
  EXPECT_EQ(blocks.reserved(), 20 * MiB);
  blocks.take(2 * MiB);
  EXPECT_EQ(blocks.reserved(), 40 * MiB);
}

}  // namespace
}  // namespace wmtp
