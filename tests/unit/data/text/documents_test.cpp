#include "data/text/documents.hpp"

#include <map>

#include "data/text/text_stream.hpp"
#include "support/data_fixture.hpp"
#include "support/packed.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class Documents : public DataTest {
 protected:
  /// Text of each document.
  std::vector<std::string> texts(const std::vector<TextPart>& parts) const {
    std::vector<std::string> found;
    for (const TextPart& part : parts) {
      TextStream in(part.file);
      for (const TextRange& document : part.documents) {
        found.emplace_back(size_t(document.end - document.begin), '\0');
        in.skip_to(document.begin);
        EXPECT_EQ(in.read(found.back().data(), found.back().size()), found.back().size());
      }
    }
    return found;
  }
  SplitParts split(const std::string& text, const TextSplitting& how) const {
    return split_files({write("a.txt", text)}, how);
  }
};

TEST_F(Documents, AreWholeFilesWithoutASeparator) {
  const auto parts = whole_files({write("a.txt", "one\n\ntwo"), write("empty.txt", "")});
  EXPECT_EQ(texts(parts), (Texts{"one\n\ntwo", ""}));
  EXPECT_EQ(document_bytes(parts), 8);
}

TEST_F(Documents, AreTheNonBlankPartsBetweenSeparators) {
  EXPECT_EQ(texts(split("one<|end|>two<|end|>\n<|end|><|end|> three <|end", {"<|end|>"}).train),
            (Texts{"one", "two", " three <|end"}));
  EXPECT_EQ(texts(split("a\n\n\nb", {"\n\n"}).train), (Texts{"a", "\nb"}));
  EXPECT_TRUE(split(" \n", {"--"}).train.empty());
}

TEST_F(Documents, OfFilesWithoutTheSeparatorAreNoted) {
  const fs::path lf = write("lf.txt", "a\n***\nb\n***\n"), crlf = write("crlf.txt", "a\r\n***\r\nb");
  const fs::path none = write("none.txt", "a\n** *\nb");
  const SplitParts parts = split_files({lf, crlf, none}, {"\n***\n"});
  EXPECT_EQ(parts.documents, 4);
  EXPECT_EQ(parts.unseparated, (std::vector<fs::path>{crlf, none}));
  auto found = find_other_line_ends({none, crlf}, {"\n***\n"});
  EXPECT_EQ(found.separator, "\r\n***\r\n");
  EXPECT_EQ(found.file, crlf);
  EXPECT_EQ(find_other_line_ends({none, lf}, {"\r\n***\r\n"}).separator, "\n***\n");
  EXPECT_EQ(find_other_line_ends({none}, {"\n***\n"}).separator, "");
  EXPECT_EQ(find_other_line_ends({lf}, {"***"}).separator, "") << "no line ends";
  EXPECT_TRUE(split_files({lf, crlf, none}, {}).unseparated.empty());
}

TEST_F(Documents, AreTheTextsOfJsonLinesPackedOrNot) {
  const std::string lines =
      "{\"text\": \"one\\ntwo \\u00e9\", \"id\": 1}\n\n{\"text\": \" \"}\n{\"id\": {\"text\": 2}, \"text\": "
      "\"three|four\"}";
  for (const std::string& bytes : {lines, gzip(lines), zstd(lines)}) {
    EXPECT_EQ(texts(split(bytes, {}).train), (Texts{"one\ntwo \u00e9", "three|four"}));
    EXPECT_EQ(texts(split(bytes, {"|"}).train), (Texts{"one\ntwo \u00e9", "three", "four"}));
    const SplitParts parts = split(bytes, {"", 0.5, 0.5});
    EXPECT_EQ(texts(parts.train), Texts{"one\ntwo \u00e9"});
    EXPECT_EQ(texts(parts.validation), Texts{"three|four"});
  }
}

TEST_F(Documents, OfAPackedTextAreThoseOfTheText) {
  std::string text;
  for (int i = 0; i < 300000; ++i) text += "line " + std::to_string(i) + (i % 100 == 99 ? "<|end|>" : "\n");
  for (const TextSplitting& how : {TextSplitting{}, {"<|end|>", 0.1, 0.1}, {"", 0.4, 0.2}}) {
    const SplitParts plain = split(text, how);
    const Texts train = texts(plain.train), validation = texts(plain.validation);
    for (const std::string& bytes : {gzip(text), zstd(text)}) {
      const SplitParts packed = split(bytes, how);
      EXPECT_EQ(document_bytes(packed.train), document_bytes(plain.train));
      EXPECT_TRUE(texts(packed.train) == train && texts(packed.validation) == validation);
    }
  }
}

TEST_F(Documents, OfJsonLinesNeedATextInEachLine) {
  const std::string good = "{\"text\": \"x\"}\n";
  for (const auto& [line, mistake] : std::map<std::string, std::string>{
           {"{\"txt\": 1}", "line 12: text: missing, wanted a string"},
           {"{\"text\": [1]}", "line 12: text: found a list, wanted a string"},
           {"[1]", "line 12: found a list, wanted an object"},
           {"{\"text\": \"x\", \"text\": \"y\"}", "line 12: text: found twice"},
           {"{\"text\": \"\xff\"}", "line 12, column 11: found byte 0xff"},
           {"{\"text\": \"",
            "line 12, column 11: the line ends in the middle of its object, wanted a complete one (`jq -c .` "}}) {
    std::string lines = "\n";
    for (int i = 0; i < 10; ++i) lines += good;
    const std::string message = error_of(ExitStatus::data, [&] { split(lines + line + "\n" + good, {}); });
    EXPECT_TRUE(has(message, at("a.txt") + ": " + mistake)) << message;
  }
}

TEST_F(Documents, AreFoundWhenASeparatorCrossesTwoReads) {
  const size_t piece = 1 << 20;
  for (const size_t before : {piece - 3, piece - 1, piece, 2 * piece - 2}) {
    const std::string first(before, 'x'), second(piece, 'y');
    EXPECT_TRUE(texts(split(first + "<|end|>" + second, {"<|end|>"}).train) == (Texts{first, second})) << before;
  }
}

TEST_F(Documents, AreHeldOutFromTheEndOfAFile) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "d" + std::to_string(i) + "|";
  const SplitParts parts = split(text, {"|", 0.1, 0.1});
  EXPECT_EQ(texts(parts.train).size(), 27U);
  EXPECT_EQ(texts(parts.validation), (Texts{"d27", "d28", "d29"}));
  EXPECT_EQ(texts(split("a|b", {"|", 0.01, 0.01}).validation), Texts{"b"}) << "at least one";
  EXPECT_EQ(texts(split("a|b|c", {"|", 0.5, 0.5}).train), Texts{"a"});
}

TEST_F(Documents, ThatAreWholeFilesAreCutAfterTheLastNewlineBeforeTheShare) {
  const SplitParts parts = split("0123\n5678\nabcdefghi\n", {"", 0.4, 0.4});  // the share begins at byte 12
  EXPECT_EQ(texts(parts.train), Texts{"0123\n5678\n"});
  EXPECT_EQ(texts(parts.validation), Texts{"abcdefghi\n"});
  const std::string far = "begin\n" + std::string(3 << 20, 'x');
  EXPECT_EQ(texts(split(far, {"", 0.1, 0.1}).train), Texts{"begin\n"});
  const SplitParts no_line_end = split("a text of one line", {"|", 0.1, 0.1});
  EXPECT_EQ(texts(no_line_end.train), Texts{"a text of one line"});
  EXPECT_TRUE(no_line_end.validation.empty());
}

TEST_F(Documents, HeldOutByAParentAreInNoPartOfAStage) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += "d" + std::to_string(i) + "\n";
  const SplitParts stage = split(text, {"\n", 0.3, 0});
  EXPECT_EQ(texts(stage.train), (Texts{"d0", "d1", "d2", "d3", "d4", "d5", "d6"}));
  EXPECT_TRUE(stage.validation.empty());
  EXPECT_EQ(texts(split(text, {"\n", 0.3, 0.1}).validation), Texts{"d9"}) << "its own validation is smaller";
  const SplitParts uncut = split("first line of many words\nsecond\n", {"", 0.5, 0.1});
  EXPECT_EQ(texts(uncut.train), Texts{"first line of many words\n"}) << "no part is in both";
}

}  // namespace
}  // namespace wmtp
