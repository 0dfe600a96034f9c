#include "io/shard_names.hpp"

#include <gmock/gmock.h>

#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ShardNames, NameTheMissingFilesOfASet) {
  EXPECT_THAT(missing_shards({"d/train-00000-of-00003.txt", "d/train-00002-of-00003.txt"}),
              ElementsAre("d/train-00001-of-00003.txt"));
  EXPECT_THAT(missing_shards({"d/m-00002-of-00002.safetensors"}), ElementsAre("d/m-00001-of-00002.safetensors"));
  EXPECT_THAT(missing_shards({"c4.00001-of-00004.json.gz", "c4.00002-of-00004.json.gz"}),
              ElementsAre("c4.00000-of-00004.json.gz", "c4.00003-of-00004.json.gz"));
}

TEST(ShardNames, AreWrittenInSeveralWays) {
  EXPECT_THAT(missing_shards({"d/t_00000_of_00003.txt", "d/t_00002_of_00003.txt"}),
              ElementsAre("d/t_00001_of_00003.txt"));
  EXPECT_THAT(missing_shards({"t.0.of.2.x"}), ElementsAre("t.1.of.2.x"));
  EXPECT_THAT(missing_shards({"t-8-of-10", "t-10-of-10", "t-1-of-10", "t-2-of-10", "t-3-of-10", "t-4-of-10",
                              "t-5-of-10", "t-6-of-10", "t-7-of-10"}),
              ElementsAre("t-9-of-10"));
  EXPECT_THAT(missing_shards({"t_00-of_01.x", "t-00_of-01.x", "t-12-of-3.x", "t-012-of-20.x"}), IsEmpty());
}

TEST(ShardNames, MayEndWithAHash) {
  EXPECT_THAT(missing_shards({"t-00000-of-00002-0123456789abcdef.x", "t-00001-of-00002-fedcba9876543210.x"}),
              IsEmpty());
  EXPECT_THAT(missing_shards({"t-00000-of-00002-0123456789abcdef.x"}), ElementsAre("t-00001-of-00002.x"));
}

TEST(ShardNames, OfTheHubBeginWithZeros) {
  EXPECT_THAT(missing_shards({"a/0000.parquet", "a/0003.parquet", "b/2019.parquet", "b/2021.parquet"}),
              ElementsAre("a/0001.parquet", "a/0002.parquet"));
}

TEST(ShardNames, AreCompleteWithAllNumbersFromZeroOrOne) {
  EXPECT_THAT(missing_shards({"a-00000-of-00002.x", "a-00001-of-00002.x", "b-00000-of-00001.x"}), IsEmpty());
  EXPECT_THAT(missing_shards({"m-00001-of-00002.x", "m-00002-of-00002.x"}), IsEmpty());
  EXPECT_THAT(missing_shards({"d/a-0-of-2.x", "d/a-1-of-2.x"}), IsEmpty());
  EXPECT_THAT(missing_shards({"words.txt", "king-of-kings.txt", "1-of-a-kind.txt", "a-1-of-"}), IsEmpty());
}

TEST(ShardNames, BelongToTheSetOfTheirFolder) {
  EXPECT_THAT(missing_shards({"a/x-0-of-2.t", "b/x-1-of-2.t"}), ElementsAre("a/x-1-of-2.t", "b/x-0-of-2.t"));
}

TEST(ShardNames, HaveOneTotal) {
  const auto text = error_of(ExitStatus::data, [] { missing_shards({"a-00000-of-00001.x", "a-00000-of-00002.x"}); });
  EXPECT_TRUE(has(text, "found files of 00001 and of 00002 beside each other, two versions of a set")) << text;
}

TEST(ShardNames, HaveGapsThatTheirNumbersTell) {
  EXPECT_THAT(
      gaps_in_numbers({"d/part-00000.txt", "d/part-00002.txt"}),
      ElementsAre("d has no part-00001.txt, but files with lower and higher numbers; check that the download is "
                  "complete"));
  const std::string identity = "-1234abcd-0000-4000-8000-123456789abc-c000.json";
  EXPECT_THAT(gaps_in_numbers({"d/part-00000" + identity + ".gz", "d/part-00002" + identity + ".gz"}),
              ElementsAre(HasSubstr("d has no part-00001" + identity + ", but")));
  EXPECT_THAT(gaps_in_numbers({"d/shard_1.bin", "d/shard_4.bin"}),
              ElementsAre(HasSubstr("d has no shard_2.bin, shard_3.bin, but")));
  EXPECT_THAT(gaps_in_numbers({"d/a_000001.bin", "d/a_000050.bin", "e/a_000002.bin"}),
              ElementsAre(HasSubstr("a_000011.bin and more, but")));
  EXPECT_THAT(gaps_in_numbers({"00.txt", "02.txt", "03.txt.gz", "04.txt"}),
              ElementsAre(HasSubstr(" has no 01.txt, but")));
}

TEST(ShardNames, HaveAFewGapsThatAreToldAndOthersThatAreCounted) {
  std::vector<std::filesystem::path> files;
  for (const char* folder : {"a", "b", "c", "d", "e", "f", "g"})
    for (const char* name : {"part-0.txt", "part-2.txt"}) files.push_back(std::filesystem::path(folder) / name);
  const std::vector<std::string> gaps = gaps_in_numbers(files);
  ASSERT_EQ(gaps.size(), 6u);
  EXPECT_EQ(gaps.back(), "2 more sets of files lack numbers");
}

TEST(ShardNames, HaveNoGapsIfTheirNumbersMayMeanSomethingElse) {
  EXPECT_THAT(gaps_in_numbers({"a-00000.txt", "a-00001.txt", "b-00000.txt", "a-00002.json"}), IsEmpty());
  EXPECT_THAT(gaps_in_numbers({"part-00007.txt", "part-00009.txt"}), IsEmpty()) << "a part, as it seems";
  EXPECT_THAT(gaps_in_numbers({"test1.py", "test3.py", "words.txt", ".01", "1.txt", "11.txt"}), IsEmpty());
  EXPECT_THAT(gaps_in_numbers({"2024-01-01.txt", "2024-01-03.txt", "1_01.txt", "1_03.txt"}), IsEmpty());
  EXPECT_THAT(gaps_in_numbers({"t-00000-of-00003.txt", "t-00002-of-00003.txt"}), IsEmpty())
      << "missing_shards names it";
}

TEST_F(DataTest, ShardsThatAreNotReadAreNoGap) {
  for (const auto* name : {"part-00000.txt", "part-00001.txt", "part-00002.txt"}) write(name, "x");
  EXPECT_THAT(gaps_in_numbers({at("part-00000.txt"), at("part-00002.txt")}), IsEmpty());
}

}  // namespace
}  // namespace wmtp
