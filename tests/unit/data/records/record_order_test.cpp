#include "data/records/record_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace wmtp {
namespace {

std::vector<int64_t> counts(const BinOrder& order, int64_t from, int64_t to, size_t bins) {
  std::vector<int64_t> counts(bins);
  for (int64_t position = from; position < to; ++position) ++counts[size_t(order.at(position).bin)];
  return counts;
}

TEST(BinOrder, GivesEachBinItsShareOfEveryBlock) {
  const BinOrder order(7, {5, 3, 2}, {5, 3, 2}, 10'000);
  for (int64_t from = 0; from + 1024 <= 10'000; from += 1024) {
    const auto found = counts(order, from, from + 1024, 3);
    EXPECT_NEAR(double(found[0]), 512, 1.01);
    EXPECT_NEAR(double(found[1]), 307.2, 1.01);
    EXPECT_NEAR(double(found[2]), 204.8, 1.01);
  }
  EXPECT_EQ(counts(order, 0, 10'000, 3), (std::vector<int64_t>{5000, 3000, 2000}));
}

TEST(BinOrder, ChangesTheSharesLinearlyOverTheRun) {
  const BinOrder order(7, {1, 0}, {0, 3}, 100'000);
  EXPECT_NEAR(double(counts(order, 0, 10'000, 2)[1]), 500, 2);
  EXPECT_NEAR(double(counts(order, 45'000, 55'000, 2)[1]), 5000, 2);
  EXPECT_NEAR(double(counts(order, 90'000, 100'000, 2)[1]), 9500, 2);
}

TEST(BinOrder, NeverDrawsABinOfWeightZero) {
  const BinOrder order(1, {0, 0.1, 0, 0.7}, {0, 0.4, 0, 0.3}, 5000);
  const auto found = counts(order, 0, 5000, 4);
  EXPECT_EQ(found[0], 0);
  EXPECT_EQ(found[2], 0);
}

TEST(BinOrder, CountsTheDrawsOfEachBinWithoutGaps) {
  const BinOrder order(3, {1, 2, 4}, {4, 1, 1}, 3000);
  std::vector<std::vector<int64_t>> drawn(3);
  for (int64_t position = 0; position < 3000; ++position) {
    const auto draw = order.at(position);
    drawn[size_t(draw.bin)].push_back(draw.drawn);
  }
  for (auto& one : drawn) {
    std::sort(one.begin(), one.end());
    for (size_t i = 0; i < one.size(); ++i) ASSERT_EQ(one[i], int64_t(i));
  }
}

TEST(BinOrder, ShufflesTheBinsBySeed) {
  const BinOrder one(1, {1, 1}, {1, 1}, 1000), other(2, {1, 1}, {1, 1}, 1000), again(1, {1, 1}, {1, 1}, 1000);
  std::vector<int64_t> bins, other_bins, again_bins;
  for (int64_t position = 0; position < 64; ++position) {
    bins.push_back(one.at(position).bin);
    other_bins.push_back(other.at(position).bin);
    again_bins.push_back(again.at(position).bin);
  }
  EXPECT_EQ(bins, again_bins);
  EXPECT_NE(bins, other_bins);
  EXPECT_FALSE(std::is_sorted(bins.begin(), bins.end()));
}

TEST(BinOrder, SupportsRunsOfAnyLength) {
  EXPECT_EQ(counts(BinOrder(1, {1, 3}, {1, 3}, 4), 0, 4, 2), (std::vector<int64_t>{1, 3}));
  const int64_t long_run = 1'000'000'000'000'000'000;
  const BinOrder order(1, {1, 1}, {1, 0}, long_run);
  EXPECT_GE(order.at(long_run - 1).drawn, 0);
}

}  // namespace
}  // namespace wmtp
