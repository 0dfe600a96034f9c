#include "tokenizer/split_pattern.hpp"

#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

using Kind = SplitPattern::Match::Kind;

std::vector<std::string> words_of(const std::string& expression, const std::string& text) {
  const SplitPattern pattern(expression, "here");
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const auto match = pattern.find(text, at, false);
    if (match.kind != Kind::found) break;
    words.push_back(text.substr(match.begin, match.end - match.begin));
    at = std::max(match.end, at + 1);
  }
  return words;
}

const std::string gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
using Words = std::vector<std::string>;

TEST(SplitPattern, FindsTheWordsOfGpt2) {
  EXPECT_EQ(words_of(gpt2, "Hello world's  2nd!\n"), (Words{"Hello", " world", "'s", " ", " 2", "nd", "!", "\n"}));
  EXPECT_EQ(words_of(gpt2, "\xc3\xa9t\xc3\xa9 \xe6\x9d\xb1\xe4\xba\xac\xef\xbc\x91"),
            (Words{"\xc3\xa9t\xc3\xa9", " \xe6\x9d\xb1\xe4\xba\xac", "\xef\xbc\x91"}))
      << "letters and digits of other scripts";
}

TEST(SplitPattern, WhiteSpaceIsThatOfUnicode) {
  const std::string wide = "\xe3\x80\x80", next_line = "\xc2\x85",
                    separator = "\xe1\xa0\x8e";  // U+3000, U+0085, U+180E
  EXPECT_EQ(words_of(R"(\s+)", wide + next_line + "\t"), Words{wide + next_line + "\t"});
  EXPECT_EQ(words_of(R"(\s)", separator), Words{}) << "white space until Unicode 6.3 only";
  EXPECT_EQ(words_of(R"(\S+)", "a" + separator + wide), Words{"a" + separator});
  EXPECT_EQ(words_of(R"([^\s]+)", "ab" + wide + "c"), (Words{"ab", "c"}));
}

TEST(SplitPattern, ReturnsEmptyMatches) {
  EXPECT_EQ(words_of("x*", "axxb"), (Words{"", "xx", ""}));
  const auto cut = SplitPattern(R"((?=(\d{3})+(?!\d)))", "here").find("a1234", 0, false);
  EXPECT_EQ(cut.begin, 2u);
  EXPECT_EQ(cut.end, 2u);
}

TEST(SplitPattern, MatchesLongWordsThatAreRemembered) {
  const std::string word(400'000, 'a');
  const auto match = SplitPattern(R"((?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+)", "here").find(word, 0, false);
  EXPECT_EQ(match.end, word.size()) << "more than fits on the stack of compiled expressions";
}

TEST(SplitPattern, KnowsWhetherItLooksAtTheTextBefore) {
  for (const char* expression : {"(?<=a)b", "(?:b|(?<!a))", "^b", "\\Ab"})
    EXPECT_TRUE(SplitPattern(expression, "here").looks_back()) << expression;
  for (const char* expression : {"a(?=b)", "a$", "a\\z", "[^a]"})
    EXPECT_FALSE(SplitPattern(expression, "here").looks_back()) << expression;
}

TEST(SplitPattern, ReportsWhereFurtherTextCouldChangeTheMatch) {
  const SplitPattern words(R"( ?\p{L}+)", "here");
  EXPECT_EQ(words.find("ab", 0, true).kind, Kind::undecided) << "abc is still possible";
  EXPECT_EQ(words.find("ab", 0, false).kind, Kind::found);
  const auto decided = words.find("ab c", 0, true);
  EXPECT_EQ(decided.kind, Kind::found);
  EXPECT_EQ(decided.end, 2u);
  EXPECT_EQ(words.find("12", 0, false).kind, Kind::none);
}

TEST(SplitPattern, SaysWhatToDoWithATextOnWhichItBacktracksTooMuch) {
  const SplitPattern pattern("(a|aa)+$", "t.json");
  EXPECT_SAYS(error_of(ExitStatus::data, [&] { pattern.find(std::string(100000, 'a') + "c", 0, false); }),
              "split the text's longest lines");
}

TEST(SplitPattern, RefusesInvalidExpressionsWithTheirLocation) {
  const std::string message = error_of(ExitStatus::data, [] { SplitPattern("(x", "a.json: pre_tokenizer"); });
  EXPECT_TRUE(has(message, "a.json: pre_tokenizer: unsupported expression: a missing ), at byte 2 of \"(x\""))
      << message;
  EXPECT_TRUE(has(error_of(ExitStatus::data, [] { SplitPattern("(?<=a+)b", "a.json"); }),
                  "unsupported expression: lookbehind assertion is not fixed length, in \"(?<=a+)b\""));
  const SplitPattern doubling("(a+)+$", "a.json");
  EXPECT_TRUE(has(
      error_of(ExitStatus::data, [&] { doubling.find(std::string(40, 'a') + std::string(40, 'a') + "b", 0, false); }),
      "a.json: matching a text failed"));
}

}  // namespace
}  // namespace wmtp
