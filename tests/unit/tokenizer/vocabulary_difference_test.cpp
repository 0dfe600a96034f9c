#include "tokenizer/vocabulary_difference.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/text.hpp"
#include "support/made_tokenizer.hpp"
#include "support/temporary_folder.hpp"
#include "tokenizer/tokenizer_export.hpp"

namespace wmtp {
namespace {

/// A field of protobuf's wire format, which is no longer than 127 bytes.
std::string field(int number, const std::string& bytes) {
  return std::string{char(number << 3 | 2), char(bytes.size())} + bytes;
}

class VocabularyDifferenceTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
    return folder_.path() / name;
  }
  /// "7: "a" there, "b" here", or "" without a difference.
  static std::string between(const std::filesystem::path& there, const std::filesystem::path& here) {
    const auto found = vocabulary_difference(there, here);
    return found ? std::to_string(found->id) + ": " + found->there + " there, " + found->here + " here" : "";
  }
  std::string between(const Json& there, const Json& here) const {
    return between(write("there.json", there.dump()), write("here.json", here.dump()));
  }
  /// The pieces of sentencepiece_json(), with `first` as the piece after the bytes.
  std::filesystem::path write_pieces(const std::string& first) const {
    const auto piece = [](const std::string& text, char type) {
      return field(1, field(1, text) + std::string{char(3 << 3), type});
    };
    std::string pieces = piece("<unk>", 2) + piece("<s>", 3) + piece("</s>", 3);
    const Json vocabulary = sentencepiece_json()["model"]["vocab"];
    std::vector<std::string> by_id(vocabulary.size());
    for (const auto& [token, id] : vocabulary.items()) by_id[size_t(id)] = token;
    by_id[259] = first;
    for (size_t id = 3; id < by_id.size(); ++id) pieces += piece(by_id[id], id < 259 ? 6 : 1);
    return write(first == "x" ? "x.model" : "same.model", pieces);
  }

  test::TemporaryFolder folder_;
};

TEST_F(VocabularyDifferenceTest, NamesTheFirstIdWithAnotherToken) {
  Json other = byte_level_json();
  EXPECT_EQ(between(other, byte_level_json()), "");
  std::swap(other["model"]["vocab"]["a"], other["model"]["vocab"]["b"]);
  EXPECT_EQ(between(other, byte_level_json()), R"(97: "b" there, "a" here)");
  other = byte_level_json();
  other["model"]["vocab"]["aa"] = 261;
  EXPECT_EQ(between(other, byte_level_json()), R"(261: "aa" there, no token here)");
  EXPECT_EQ(between(byte_level_json(), other), R"(261: no token there, "aa" here)");
}

TEST_F(VocabularyDifferenceTest, NamesTheTokenOfTheFirstMergeThatDiffers) {
  Json other = byte_level_json();
  std::swap(other["model"]["merges"][0], other["model"]["merges"][1]);
  const std::string there = R"("a" and "b")", here = printable(letter_of(' ')) + R"( and "a")";
  EXPECT_EQ(between(other, byte_level_json()), "257: merged of " + there + " there, merged of " + here + " here");
  other = byte_level_json();
  other["model"]["merges"].erase(2);
  EXPECT_EQ(between(other, byte_level_json()),
            "258: not merged there, merged of " + printable(letter_of(' ') + "a") + R"( and "b" here)");
}

TEST_F(VocabularyDifferenceTest, IgnoresWhatGivesNoIdOfATextAnotherMeaning) {
  Json other = byte_level_json();
  other["version"] = "2.0";
  other["truncation"] = {{"max_length", 8}};
  other["post_processor"] = {{"type", "ByteLevel"}};
  other["model"]["merges"][1] = {"a", "b"};  // another way to write "a b"
  EXPECT_EQ(between(other, byte_level_json()), "");
  other["added_tokens"].push_back(added(261, "<think>", false));
  other["added_tokens"].push_back(added(262, "<pad>"));
  EXPECT_EQ(between(other, byte_level_json()), "") << "tokens for chats, which come later";
  EXPECT_EQ(between(byte_level_json(), other), "");
  other["added_tokens"][0]["content"] = "<|reserved_0|>";
  EXPECT_EQ(between(other, byte_level_json()), "") << "a label of the same special token";
  other["added_tokens"][1]["content"] = "  ";
  EXPECT_EQ(between(other, byte_level_json()), R"(260: "  " there, "<tool>" here)") << "found in texts";
}

TEST_F(VocabularyDifferenceTest, ComparesPiecesWithEachOtherAndWithATokenizerJson) {
  const auto same = write_pieces("\xe2\x96\x81"), other = write_pieces("x");
  const auto json = write("tokenizer.json", sentencepiece_json().dump());
  EXPECT_EQ(between(other, same), "259: \"x\" there, " + printable("\xe2\x96\x81") + " here");
  EXPECT_EQ(between(json, same), "");
  EXPECT_EQ(between(other, json), "259: \"x\" there, " + printable("\xe2\x96\x81") + " here");
}

TEST_F(VocabularyDifferenceTest, ComparesBytesWithTheirExportAndWithOthers) {
  const auto exported = write("tokenizer.json", byte_tokenizer_json().dump());
  EXPECT_EQ(between(exported, {}), "");
  EXPECT_EQ(between({}, exported), "");
  EXPECT_EQ(between({}, write("pieces.json", sentencepiece_json().dump())),
            "0: " + printable(letter_of(0)) + R"( there, "<unk>" here)");
}

TEST_F(VocabularyDifferenceTest, SaysNothingOfFilesThatItCannotRead) {
  const auto here = write("here.json", byte_level_json().dump());
  for (const char* text : {"", "[]", "{}", R"({"model": {"vocab": [["a", 0.5]]}})",
                           R"({"model": {"vocab": {"a": -1}}})", R"({"model": {"vocab": {"a": 4294967295}}})"})
    EXPECT_EQ(between(write("there.json", text), here), "") << text;
  EXPECT_EQ(between(write("tokenizer.model", "IQ== 0\nIg== 1\n"), here), "") << "Llama 3's own format";
}

}  // namespace
}  // namespace wmtp
