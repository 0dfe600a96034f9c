#include "data/torch/token_writer.hpp"

#include "data/tokens/token_windows.hpp"
#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

/// Each byte becomes its value times 1,000, so that small texts have large ids.
class WideTokenizer : public Tokenizer {
 public:
  Reads reads() const override { return Reads::bytes; }
  int64_t vocab_size() const override { return 256000; }
  int64_t end_of_text() const override { return 255999; }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    for (unsigned char byte : text) ids.push_back(byte * 1000);
    return ids;
  }
  std::string decode(const std::vector<int32_t>&) const override { return {}; }
};

using TokenWriting = DataTest;

std::vector<std::string> cut_into_pieces(const std::filesystem::path& file) {
  std::vector<std::string> pieces;
  for_each_piece(file, [&](std::string_view piece) {
    pieces.emplace_back(piece);
    return true;
  });
  return pieces;
}

TEST_F(TokenWriting, UsesAsManyBytesAsTheVocabularyNeeds) {
  EXPECT_EQ(id_dtype(258), "uint16");
  EXPECT_EQ(id_dtype(65535), "uint16");
  EXPECT_EQ(id_dtype(65536), "uint32");
}

TEST_F(TokenWriting, WritesIdsOf32BitsForLargeVocabularies) {
  const WideTokenizer tokenizer;
  TokenWriter writer(at("ids.bin"), tokenizer);
  for (const TextPart& part : whole_files({write("a.txt", "az"), write("b.txt", "")})) writer.add_documents(part);
  writer.finish();
  EXPECT_EQ(writer.num_ids(), 4);
  std::vector<int64_t> ids(4);
  open_token_file(at("ids.bin"), "uint32", 4, 256000)->read(0, ids.data());
  EXPECT_EQ(ids, (std::vector<int64_t>{97000, 122000, 255999, 255999}));
}

/// Puts 254,000 before a text, which is also the id of the byte 254.
class BeginningTokenizer : public WideTokenizer {
 public:
  std::vector<int32_t> prefix_ids() const override { return {254000}; }
  int64_t end_of_text() const override { return 255000; }
};

TEST_F(TokenWriting, CountsTheEndsInsideOfDocuments) {
  const BeginningTokenizer tokenizer;
  TokenWriter writer(at("ids.bin"), tokenizer);
  const auto ends_with = [&](const std::string& text) {
    for (const TextPart& part : whole_files({write("a.txt", text)})) writer.add_documents(part);
    return writer.num_inner_ends();
  };
  EXPECT_EQ(ends_with("ab"), 0);
  EXPECT_EQ(ends_with("ab\xff"), 0);
  EXPECT_EQ(ends_with("a\xff"
                      "b\xff"
                      "c"),
            2);
}

TEST_F(TokenWriting, BeginsAndEndsADocumentOnceThatBringsTheTokens) {
  const BeginningTokenizer tokenizer;
  TokenWriter writer(at("ids.bin"), tokenizer);
  const auto parts = whole_files({write("a.txt", "a"),
                                  write("b.txt",
                                        "\xfe"
                                        "b\xff"),
                                  write("c.txt", ""), write("d.txt", "\xfe"),
                                  write("e.txt",
                                        "\xff"
                                        "e")});
  for (const TextPart& part : parts) writer.add_documents(part);
  writer.finish();
  std::vector<int64_t> ids(size_t(writer.num_ids()));
  open_token_file(at("ids.bin"), "uint32", writer.num_ids(), 256000)->read(0, ids.data());
  EXPECT_EQ(ids, (std::vector<int64_t>{254000, 97000, 255000, 254000, 98000, 255000, 254000, 255000, 254000, 255000,
                                       254000, 255000, 101000, 255000}));
}

/// Claims to have 1,000 ids, and returns others.
class LyingTokenizer : public WideTokenizer {
 public:
  int64_t vocab_size() const override { return 1000; }
};

TEST_F(TokenWriting, RefusesAnIdOutsideTheVocabularyInsteadOfTruncatingIt) {
  const LyingTokenizer tokenizer;
  TokenWriter writer(at("ids.bin"), tokenizer);
  writer.add({0, 999});
  for (const int32_t id : {1000, 65537, -1})
    EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { writer.add({id}); }), "returned id " + std::to_string(id)));
  EXPECT_EQ(writer.num_ids(), 2);
}

TEST_F(TokenWriting, SplitsLargeTextBeforeNewlines) {
  std::string text;
  for (int line = 0; text.size() < (5u << 20); ++line) text += "line " + std::to_string(line) + "\n";
  const auto pieces = cut_into_pieces(write("a.txt", text));
  ASSERT_GT(pieces.size(), 4u);
  std::string joined = pieces[0];
  for (size_t i = 1; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i][0], '\n');
    joined += pieces[i];
  }
  EXPECT_TRUE(joined == text);
}

TEST_F(TokenWriting, SplitsALongLineBetweenCharacters) {
  std::string text = "x";
  while (text.size() < (3u << 20)) text += "\xe2\x82\xac";
  const auto file = write("a.txt", text);
  std::string joined;
  for (const auto& piece : cut_into_pieces(file)) {
    EXPECT_NE(uint8_t(piece[0]) & 0xc0, 0x80);
    joined += piece;
  }
  EXPECT_TRUE(joined == text);
  EXPECT_EQ(first_non_utf8(file), -1);
}

TEST_F(TokenWriting, FindsTheFirstByteThatIsNotUtf8) {
  EXPECT_EQ(first_non_utf8(write("a.txt", "")), -1);
  EXPECT_EQ(first_non_utf8(write("a.txt", "caf\xc3\xa9 \xf0\x9f\x98\x80 \xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf")),
            -1);
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x82", "\xe2\x28\xa1"})
    EXPECT_EQ(first_non_utf8(write("a.txt", std::string("four") + bad)), 4);
  EXPECT_EQ(first_non_utf8(write("a.txt", std::string(3 << 20, 'x') + "\xff" + "more")), 3 << 20);
}

TEST_F(TokenWriting, NamesAFileThatCannotBeRead) {
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { cut_into_pieces(at("none.txt")); }), "none.txt"));
}

}  // namespace
}  // namespace wmtp
