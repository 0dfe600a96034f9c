#include "data/window_order.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

namespace wmtp {
namespace {

std::vector<int64_t> epoch_of(const WindowOrder& order, int64_t count, int64_t epoch) {
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < count; ++i) windows.push_back(order.window(epoch * count + i));
  return windows;
}

TEST(WindowOrder, DrawsEveryWindowOnceInEachEpoch) {
  for (int64_t count : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097}) {
    const WindowOrder order(42, count, DataOrder::shuffled);
    for (int64_t epoch : {0, 1, 7}) {
      const auto windows = epoch_of(order, count, epoch);
      const std::set<int64_t> seen(windows.begin(), windows.end());
      EXPECT_EQ(seen.size(), size_t(count)) << count;
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), count - 1);
    }
  }
}

TEST(WindowOrder, DependsOnEpochAndSeed) {
  for (int64_t count : {100, 4097}) {
    const WindowOrder order(1, count, DataOrder::shuffled), other(2, count, DataOrder::shuffled);
    EXPECT_NE(epoch_of(order, count, 0), epoch_of(order, count, 1));
    EXPECT_NE(epoch_of(order, count, 0), epoch_of(other, count, 0));
  }
}

TEST(WindowOrder, DependsOnSeedCountAndPositionOnly) {
  const WindowOrder order(5, 1000, DataOrder::shuffled), again(5, 1000, DataOrder::shuffled);
  const int64_t later = again.window(2500);
  for (int64_t position = 0; position < 2500; ++position) EXPECT_EQ(order.window(position), again.window(position));
  EXPECT_EQ(order.window(2500), later);
}

TEST(WindowOrder, IsTheSameInEveryRelease) {
  const WindowOrder order(42, 10, DataOrder::shuffled);
  EXPECT_EQ(epoch_of(order, 10, 0), (std::vector<int64_t>{3, 9, 1, 8, 7, 6, 4, 5, 0, 2}));
  EXPECT_EQ(epoch_of(order, 10, 1), (std::vector<int64_t>{9, 3, 6, 2, 5, 0, 8, 7, 4, 1}));
}

TEST(WindowOrder, PlacesAWindowUniformly) {
  constexpr int64_t count = 7, epochs = 7000;
  const WindowOrder order(3, count, DataOrder::shuffled);
  std::vector<int> at_first(count);
  for (int64_t epoch = 0; epoch < epochs; ++epoch) ++at_first[size_t(order.window(epoch * count))];
  for (int times : at_first) EXPECT_NEAR(times, epochs / count, 150);  // five standard deviations
}

TEST(WindowOrder, IsTheFilesOrderWhenSequential) {
  const WindowOrder order(42, 3, DataOrder::sequential);
  EXPECT_EQ(epoch_of(order, 6, 0), (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
}

TEST(WindowOrder, SupportsVeryLargeCounts) {
  const WindowOrder order(42, std::numeric_limits<int64_t>::max(), DataOrder::shuffled);
  std::set<int64_t> seen;
  for (int64_t position = 0; position < 1000; ++position) seen.insert(order.window(position));
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_GE(*seen.begin(), 0);
}

TEST(WindowOrder, GivesAStepTheSameWindowsInEveryLayout) {
  const auto step = [](int64_t world, int64_t accumulation, int64_t batch_size, int64_t step_index) {
    std::set<int64_t> positions;
    for (int64_t m = step_index * accumulation; m < (step_index + 1) * accumulation; ++m)
      for (int64_t r = 0; r < world; ++r)
        for (int64_t b = 0; b < batch_size; ++b)
          positions.insert(sequence_position(m * world * batch_size, r, batch_size, b));
    return positions;
  };
  EXPECT_EQ(step(1, 1, 4, 3), (std::set<int64_t>{12, 13, 14, 15}));
  EXPECT_EQ(step(2, 1, 2, 3), step(1, 1, 4, 3));
  EXPECT_EQ(step(4, 1, 1, 3), step(1, 1, 4, 3));
  EXPECT_EQ(step(2, 2, 1, 3), step(1, 1, 4, 3));
}

}  // namespace
}  // namespace wmtp
