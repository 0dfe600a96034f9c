#include "data/records/record_packs.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "base/random.hpp"

namespace wmtp {
namespace {

using Numbers = std::vector<int64_t>;

std::vector<RecordEntry> entries_of(const Numbers& lengths) {
  std::vector<RecordEntry> entries(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) entries[i].length = int32_t(lengths[i]);
  return entries;
}

Numbers records_of(const RecordPacks& packs, int64_t pack) {
  const auto records = packs.records(pack);
  return {records.begin(), records.end()};
}

TEST(RecordPacks, PutTheLongestRecordFirstIntoTheFullestPackWithRoom) {
  const RecordPacks packs(entries_of({2, 9, 5, 3, 6, 1}), {0, 1, 2, 3, 4, 5}, 10);
  ASSERT_EQ(packs.count(), 3);
  EXPECT_EQ(records_of(packs, 0), (Numbers{1})) << "9";
  EXPECT_EQ(records_of(packs, 1), (Numbers{4, 3, 5})) << "6 + 3 + 1, in the newest of the packs with room for 1";
  EXPECT_EQ(records_of(packs, 2), (Numbers{2, 0})) << "5 + 2";
}

TEST(RecordPacks, ContainOnlyTheChosenRecords) {
  const RecordPacks packs(entries_of({4, 4, 4, 4}), {3, 1}, 8);
  ASSERT_EQ(packs.count(), 1);
  EXPECT_EQ(records_of(packs, 0), (Numbers{3, 1})) << "records of one length in the given order";
}

TEST(RecordPacks, OfNoRecordsAreNone) { EXPECT_EQ(RecordPacks({}, {}, 8).count(), 0); }

TEST(RecordPacks, ContainEachRecordOnceAndLeaveLittleRoom) {
  constexpr int64_t sequence_length = 512;
  Numbers lengths, chosen(5000);
  for (uint64_t i = 0; i < chosen.size(); ++i) lengths.push_back(1 + int64_t(hash64(1, i) % 300));
  std::iota(chosen.begin(), chosen.end(), 0);
  const RecordPacks packs(entries_of(lengths), chosen, sequence_length);
  Numbers seen;
  for (int64_t pack = 0; pack < packs.count(); ++pack) {
    int64_t tokens = 0;
    for (const int64_t record : packs.records(pack)) {
      tokens += lengths[size_t(record)];
      seen.push_back(record);
    }
    EXPECT_LE(tokens, sequence_length);
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, chosen);
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  EXPECT_LE(packs.count(), tokens / sequence_length * 102 / 100 + 1);
}

}  // namespace
}  // namespace wmtp
