#include "core/documents/documents.hpp"

#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

class Documents : public DataTest {
 protected:
  /// Text of each document.
  std::vector<std::string> texts(const std::vector<TextPart>& parts) const {
    std::vector<std::string> found;
    for (const TextPart& part : parts)
      for (const TextRange& document : part.documents)
        found.push_back(read(part.file).substr(size_t(document.begin), size_t(document.end - document.begin)));
    return found;
  }
  SplitParts split(const std::string& text, const TextSplitting& how) const {
    return split_files({write("a.txt", text)}, how);
  }
};

using Texts = std::vector<std::string>;

TEST_F(Documents, AreWholeFilesWithoutASeparator) {
  const auto parts = whole_files({write("a.txt", "one\n\ntwo"), write("empty.txt", "")});
  EXPECT_EQ(texts(parts), (Texts{"one\n\ntwo", ""}));
  EXPECT_EQ(bytes_of(parts), 8);
}

TEST_F(Documents, AreTheNonBlankPartsBetweenSeparators) {
  EXPECT_EQ(texts(split("one<|end|>two<|end|>\n<|end|><|end|> three <|end", {"<|end|>"}).train),
            (Texts{"one", "two", " three <|end"}));
  EXPECT_EQ(texts(split("a\n\n\nb", {"\n\n"}).train), (Texts{"a", "\nb"}));
  EXPECT_TRUE(split(" \n", {"--"}).train.empty());
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
