#include "data/records/record_pairs.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace wmtp {
namespace {

RecordEntry entry(int64_t problem, int8_t correct, int32_t answer) {
  RecordEntry one;
  one.problem = problem;
  one.correct = correct;
  one.prompt = 5;
  one.length = 5 + answer;
  return one;
}

std::vector<RecordPair> pairs(const std::vector<RecordEntry>& entries, const PairRules& rules) {
  std::vector<int64_t> all(entries.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return find_pairs(entries, all, rules);
}

std::set<std::pair<int64_t, int64_t>> numbers(const std::vector<RecordPair>& pairs) {
  std::set<std::pair<int64_t, int64_t>> result;
  for (const RecordPair& pair : pairs) result.emplace(pair.right, pair.wrong);
  return result;
}

using Numbers = std::set<std::pair<int64_t, int64_t>>;

TEST(RecordPairs, JoinRightAndWrongAnswersToTheSameProblem) {
  const std::vector<RecordEntry> entries{entry(1, 1, 10), entry(2, 0, 10), entry(1, 0, 10),
                                         entry(1, 0, 12), entry(2, 0, 10), entry(3, 1, 10),
                                         entry(-1, 1, 9), entry(-1, 0, 9), entry(1, -1, 9)};
  EXPECT_EQ(numbers(pairs(entries, {{100}, 0, 0})), (Numbers{{0, 2}, {0, 3}}));
}

TEST(RecordPairs, ShareALengthBinWhoseUpperBoundIsInclusive) {
  const std::vector<RecordEntry> entries{entry(1, 1, 100), entry(1, 0, 101), entry(1, 0, 100), entry(1, 0, 1),
                                         entry(1, 1, 300), entry(1, 0, 900), entry(1, 0, 150)};
  EXPECT_EQ(numbers(pairs(entries, {{100, 200}, 0, 0})), (Numbers{{0, 2}, {0, 3}, {4, 5}}));
}

TEST(RecordPairs, AreLimitedPerProblemAndSelectedBySeed) {
  std::vector<RecordEntry> entries;
  for (int i = 0; i < 40; ++i) entries.push_back(entry(1, int8_t(i % 2), 10 + i % 3 * 100));
  const auto all = numbers(pairs(entries, {{100, 200}, 0, 0}));
  const auto some = numbers(pairs(entries, {{100, 200}, 9, 1}));
  EXPECT_EQ(some.size(), 9u);
  for (const auto& pair : some) EXPECT_TRUE(all.count(pair));
  EXPECT_EQ(some, numbers(pairs(entries, {{100, 200}, 9, 1})));
  EXPECT_NE(some, numbers(pairs(entries, {{100, 200}, 9, 2})));
  EXPECT_EQ(numbers(pairs(entries, {{100, 200}, 1000, 2})), all);
}

}  // namespace
}  // namespace wmtp
