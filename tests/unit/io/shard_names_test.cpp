#include "io/shard_names.hpp"

#include <gmock/gmock.h>

#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

using ::testing::ElementsAre;
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

}  // namespace
}  // namespace wmtp
