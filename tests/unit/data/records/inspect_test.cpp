// Statistics of token files, records and text.
#include "data/records/inspect.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "base/error.hpp"
#include "support/packed.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

class InspectTest : public testing::Test {
 protected:
  InspectTest() {
    std::string pattern = (fs::temp_directory_path() / "wmtp-inspect-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~InspectTest() override { fs::remove_all(folder_); }

  fs::path file(const std::string& content) const {
    std::ofstream(folder_ / "file", std::ios::binary) << content;
    return folder_ / "file";
  }
  static std::map<std::string, Statistic::second_type> by_name(const std::vector<Statistic>& found) {
    return {found.begin(), found.end()};
  }
  static void refuse(const std::function<void()>& call, const std::string& words) {
    EXPECT_SAYS(test::refusal(ExitStatus::data, call), words);
  }

  fs::path folder_;
};

TEST_F(InspectTest, OfTokensReportsCountRangeAndTheMostFrequent) {
  const auto found = by_name(inspect_tokens(file(std::string("\x05\x00\x02\x01\x05\x00\x03\x00", 8)), "uint16"));
  EXPECT_EQ(found.at("tokens"), Statistic::second_type(int64_t{4}));
  EXPECT_EQ(found.at("different_ids"), Statistic::second_type(int64_t{3}));
  EXPECT_EQ(found.at("smallest_id"), Statistic::second_type(int64_t{3}));
  EXPECT_EQ(found.at("largest_id"), Statistic::second_type(int64_t{0x102}));
  EXPECT_EQ(found.at("most_frequent_id"), Statistic::second_type(int64_t{5}));
  EXPECT_EQ(found.at("its_share"), Statistic::second_type(0.5));
}

TEST_F(InspectTest, OfTokensReadsWiderIdsAndRefusesAPartialId) {
  const fs::path six = file(std::string("\x01\x00\x00\x00\x02\x00", 6));
  EXPECT_EQ(by_name(inspect_tokens(six, "uint16")).at("tokens"), Statistic::second_type(int64_t{3}));
  refuse([&] { inspect_tokens(six, "uint32"); }, "6 bytes, not a multiple of the 4-byte uint32 id");
  EXPECT_EQ(by_name(inspect_tokens(file(std::string("\x01\x00\x02\x00", 4)), "uint32")).at("largest_id"),
            Statistic::second_type(int64_t{0x20001}));
  refuse([&] { inspect_tokens(file(""), "uint16"); }, "is empty");
}

TEST_F(InspectTest, OfRecordsCountsAnswersAndPairs) {
  const auto found =
      by_name(inspect_records(file(R"({"instruction":"a","output":"1","task_id":"x","is_correct":true})"
                                   "\n"
                                   R"({"instruction":"a","output":"2","task_id":"x","is_correct":false})"
                                   "\n"
                                   R"({"instruction":"a","output":"33","task_id":"x","is_correct":false})"
                                   "\n"
                                   R"({"instruction":"b","output":"4"})"
                                   "\n")));
  EXPECT_EQ(found.at("records"), Statistic::second_type(int64_t{4}));
  EXPECT_EQ(found.at("problems"), Statistic::second_type(int64_t{2}));
  EXPECT_EQ(found.at("right"), Statistic::second_type(int64_t{1}));
  EXPECT_EQ(found.at("wrong"), Statistic::second_type(int64_t{2}));
  EXPECT_EQ(found.at("unmarked"), Statistic::second_type(int64_t{1}));
  EXPECT_EQ(found.at("pairs"), Statistic::second_type(int64_t{1}));
  EXPECT_EQ(found.at("longest_bytes"), Statistic::second_type(int64_t{3}));
}

TEST_F(InspectTest, OfRecordsShowsTheirWeights) {
  const std::string plain = "{\"instruction\":\"a\",\"output\":\"12\"}\n";
  EXPECT_EQ(by_name(inspect_records(file(plain))).count("with_weights"), 0U);
  const auto found = by_name(inspect_records(file(
      plain + R"({"instruction":"a","output":"12","weight":0.5,"weights":[{"start":0,"end":1,"weight":3}]})" + "\n")));
  EXPECT_EQ(found.at("with_weights"), Statistic::second_type(int64_t{1}));
  EXPECT_EQ(found.at("weighted_spans"), Statistic::second_type(int64_t{1}));
  EXPECT_EQ(found.at("smallest_weight"), Statistic::second_type(0.5));
  EXPECT_EQ(found.at("largest_weight"), Statistic::second_type(3.0));
  const auto wrong = by_name(inspect_records(file(plain + R"({"instruction":"a","output":"1","weight":"2 kg"})"
                                                          "\n")));
  const std::string text = std::get<std::string>(wrong.at("weights"));
  EXPECT_NE(text.find(":2: weight: found the string"), std::string::npos) << text;
}

TEST_F(InspectTest, OfRecordsListsEveryMistakeWithItsLine) {
  refuse([&] { inspect_records(file("{\"instruction\":\"a\",\"output\":\"1\"}\nnonsense\n{\"output\":\"2\"}\n")); },
         ":2:");
}

TEST_F(InspectTest, OfTextReportsLinesAndTheFirstByteThatIsNotUtf8) {
  auto found = by_name(inspect_text(file("one\nzwei\xc3\xa9\n")));
  EXPECT_EQ(found.at("lines"), Statistic::second_type(int64_t{2}));
  EXPECT_EQ(found.at("longest_line_bytes"), Statistic::second_type(int64_t{6}));
  EXPECT_EQ(found.at("utf8"), Statistic::second_type(std::string("yes")));
  found = by_name(inspect_text(file("one\ntw\xff\n")));
  EXPECT_EQ(found.at("utf8"), Statistic::second_type(std::string("no: line 2, byte 3")));
}

TEST_F(InspectTest, OfPackedJsonLinesCountsDocumentsAndTheSizeOfTheirText) {
  const auto found = by_name(inspect_text(file(gzip("{\"text\": \"one\"}\n\n{\"text\": \"three\"}\n"))));
  EXPECT_EQ(found.at("lines"), Statistic::second_type(int64_t{3}));
  EXPECT_EQ(found.at("documents"), Statistic::second_type(int64_t{2}));
  EXPECT_EQ(found.at("text_bytes"), Statistic::second_type(int64_t{8}));
}

TEST_F(InspectTest, RefusesAMissingFile) {
  refuse([&] { inspect_text(folder_ / "absent"); }, "absent does not exist");
  refuse([&] { inspect_tokens(folder_ / "absent", "uint16"); }, "absent does not exist");
}

}  // namespace
}  // namespace wmtp
