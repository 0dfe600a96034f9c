// The null device itself: its memory, and its detection of races.
#include <gtest/gtest.h>

#include "memory.hpp"
#include "order.hpp"

namespace null_cuda {
namespace {

const Stream one = reinterpret_cast<Stream>(1), other = reinterpret_cast<Stream>(2);
const Event event = reinterpret_cast<Event>(3);

TEST(Memory, IsReadAndWrittenThroughItsShadowOnly) {
  auto* block = static_cast<float*>(allocate(64));
  ASSERT_TRUE(block && on_device(block) && !on_device(shadow(block)));
  *reinterpret_cast<float*>(shadow(block)) = 1;
  EXPECT_EXIT(*block = 1, testing::ExitedWithCode(97), "the host accesses device memory");
  EXPECT_TRUE(release(block));
  EXPECT_FALSE(release(block));
}

TEST(Memory, IsGivenAgainAndJoinedWhenItIsFree) {
  const size_t before = in_use(), half = capacity() / 2;
  void* first = allocate(half);
  void* second = allocate(half / 2);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(allocate(capacity()), nullptr);
  EXPECT_TRUE(release(first) && release(second));
  void* whole = allocate(capacity() - before);
  EXPECT_NE(whole, nullptr);
  EXPECT_TRUE(release(whole));
  EXPECT_EQ(in_use(), before);
}

TEST(Memory, KnowsWhatIsPinned) {
  char* block = static_cast<char*>(allocate_pinned(100));
  int pageable = 0;
  EXPECT_TRUE(is_pinned(block) && is_pinned(block + 99));
  EXPECT_FALSE(is_pinned(block + 100) || is_pinned(&pageable));
  release_pinned(block);
  EXPECT_FALSE(is_pinned(block));
}

class Races : public testing::Test {
 protected:
  /// The races found after this call.
  long found() const { return num_races() - before_; }

  char* const block_ = static_cast<char*>(allocate(1 << 20));
  const long before_ = num_races();
};

TEST_F(Races, AreTwoAccessesOfWhichOneWritesAndNothingOrders) {
  access(one, block_, 100, true, "a");
  access(other, block_ + 99, 1, false, "b");
  EXPECT_EQ(found(), 1);
  access(one, block_ + 90, 10, true, "c");
  EXPECT_EQ(found(), 2) << "b reads the last of these bytes";
}

TEST_F(Races, AreNotAccessesToOtherBytesOrTwoReadsOrOneStream) {
  access(one, block_, 100, true, "a");
  access(other, block_ + 100, 100, true, "b");
  access(one, block_, 100, true, "c");
  access(one, block_ + 500, 10, false, "d");
  access(other, block_ + 500, 10, false, "e");
  EXPECT_EQ(found(), 0);
}

TEST_F(Races, AreNotAccessesThatAnEventOrders) {
  access(one, block_, 100, true, "a");
  record(event, one);
  access(one, block_ + 200, 100, true, "after the event");
  wait(other, event);
  access(other, block_, 100, true, "b");
  EXPECT_EQ(found(), 0);
  access(other, block_ + 200, 100, true, "c");
  EXPECT_EQ(found(), 1);
}

TEST_F(Races, AreNotAccessesBetweenWhichTheHostWaited) {
  access(one, block_, 100, true, "a");
  host_waits_for_stream(one);
  access(other, block_, 100, true, "b");
  record(event, other);
  host_waits_for_event(event);
  access(one, block_, 100, false, "c");
  host_waits_for_all();
  access(other, block_, 100, true, "d");
  EXPECT_EQ(found(), 0);
}

}  // namespace
}  // namespace null_cuda
