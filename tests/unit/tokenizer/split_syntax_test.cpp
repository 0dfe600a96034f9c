#include "tokenizer/split_syntax.hpp"

#include "support/data_fixture.hpp"
#include "tokenizer/split_pattern.hpp"

namespace wmtp {
namespace {

/// The matches in `text`, as tests/parity/tokenizer_test.py compares them with those of the tokenizers library.
std::vector<std::string> words_of(const std::string& expression, const std::string& text) {
  const SplitPattern pattern(expression, "here");
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const auto match = pattern.find(text, at, false);
    if (match.kind != SplitPattern::Match::Kind::found) break;
    words.push_back(text.substr(match.begin, match.end - match.begin));
    at = std::max(match.end, at + 1);
  }
  return words;
}

std::string refusal_of(const std::string& expression) {
  return error_of(ExitStatus::data, [&] { pcre2_expression(expression, "a.json"); });
}

using Words = std::vector<std::string>;

TEST(SplitSyntax, WordsContainCombiningMarks) {
  const std::string namaste = "\xe0\xa4\xa8\xe0\xa4\xae\xe0\xa4\xb8\xe0\xa5\x8d\xe0\xa4\xa4\xe0\xa5\x87",  // नमस्ते
      accented = "e\xcc\x81";
  EXPECT_EQ(words_of(R"(\w+)", namaste + " " + accented + "_1-"), (Words{namaste, accented + "_1"}));
  EXPECT_EQ(words_of(R"(\W+)", accented + " -" + accented), Words{" -"});
  EXPECT_EQ(words_of(R"([^\w\s]+)", accented + " -" + accented), Words{"-"});
  const std::string square = "\xc2\xb2";  // ² is in \w, not in [\w]
  EXPECT_EQ(words_of(R"(\w)", square), Words{square});
  EXPECT_EQ(words_of(R"([\w])", square), Words{});
}

TEST(SplitSyntax, WhiteSpaceInAClassIsThatOfUnicode) {
  const std::string separator = "\xe1\xa0\x8e";  // U+180E
  EXPECT_EQ(words_of(R"([\S]+)", "a" + separator + "\t"), Words{"a" + separator});
  EXPECT_EQ(words_of(R"([^\S\n]+)", "a \t\n" + separator), Words{" \t"});
}

TEST(SplitSyntax, AScriptDoesNotContainWhatItSharesWithOthers) {
  const std::string character = "\xe4\xbd\xa0", stop = "\xe3\x80\x82";  // 你。
  EXPECT_EQ(words_of(R"(\p{Han}+)", character + stop), Words{character});
  EXPECT_EQ(words_of(R"(\p{^Han}+|\P{^Han}+)", character + stop), (Words{character, stop}));
}

TEST(SplitSyntax, AnchorsAreThoseOfLines) {
  EXPECT_EQ(words_of("^a", "a\na\nba"), (Words{"a", "a"}));
  EXPECT_EQ(words_of(R"(\s+$)", "a \nb  "), (Words{" ", "  "}));
  EXPECT_EQ(words_of("^", "a\n"), Words{""}) << "no line begins behind the last newline";
  EXPECT_EQ(words_of(R"(\Aa|a\z)", "a\na\na"), (Words{"a", "a"}));
}

TEST(SplitSyntax, AClassInAClassAddsItsCharacters) {
  EXPECT_EQ(words_of("[[a]b]+", "ab]c"), Words{"ab"});
  EXPECT_EQ(words_of(R"( ?[^(\s|[.,!])]+)", "ab (c|d) e."), (Words{"ab", "c", "d", " e"}));
}

TEST(SplitSyntax, IntervalsAreThoseOfRuby) {
  EXPECT_EQ(words_of("xa{,1}", "xaaxb"), (Words{"xa", "x"}));
  EXPECT_EQ(words_of("a{1,2}+b", "aaaab"), Words{"aaaab"}) << "not possessive, but repeated";
  EXPECT_EQ(words_of("a++ab|a", "aab"), (Words{"a", "a"}));
}

TEST(SplitSyntax, CharactersCanBeWrittenAsCodes) {
  EXPECT_EQ(words_of(R"([\u4f60\x{3042}-\x{3044}]+|\x41|\t)",
                     "\xe4\xbd\xa0\xe3\x81\x83"
                     "A\t"),
            (Words{"\xe4\xbd\xa0\xe3\x81\x83", "A", "\t"}));
}

TEST(SplitSyntax, RefusesByNameWhatMeansSomethingElseInPcre2) {
  const std::vector<std::pair<std::string, std::string>> refused{
      {R"(a\b)", "\\b, at byte 3"},
      {R"(\h+)", "\\h, at"},
      {R"(\v)", "\\v, at"},
      {R"(\X)", "\\X, at"},
      {R"((a)\1)", "\\1, at"},
      {R"(\pL)", "the property"},
      {R"([\W])", "\\W, at"},
      {R"(\xe3)", "a byte of a character"},
      {"[[:alpha:]]", "a class of POSIX"},
      {"[a-z&&[^b]]", "&& in a class"},
      {"[a[^b]]", "a class with ^ in a class"},
      {"[]a]", "a class that begins with ]"},
      {"[a-z-9]", "a - of no range"},
      {"(?m)a.", "the group (?m"},
      {"(?<name>a)", "the group (?<"},
      {"a(?i)b|c", "the group (?i"},
      {"(?i:ss)", "\"ss\" within (?i)"},
      {"(?i:F(?:L))", "\"fl\" within (?i)"},
      {"(?i:\xc3\xa9)", "not ASCII within (?i)"},
      {R"((?i:\p{Lu}))", "a property within (?i)"},
      {"a{2}?", "a ? behind {2}"},
      {"a{3,1}", "an interval whose end"},
      {"a**", "a quantifier of a quantifier"},
      {"(a?)*", "an endless repetition of what may be empty"},
      {"(?=a)*", "a quantifier of an assertion"},
      {"*a", "a quantifier of nothing"},
      {"x{", "write \\{"},
      {"(*FAIL)", "a quantifier of nothing"},
      {"a)", "a ) without its ("},
      {"[a", "it ends too early"},
      {std::string(200, '('), "more than 100 groups"},
      {std::string(200, '['), "more than 100 classes"}};
  for (const auto& [expression, why] : refused) {
    const std::string message = refusal_of(expression);
    EXPECT_TRUE(has(message, "a.json: unsupported expression: ") && has(message, why)) << expression << ": " << message;
  }
}

TEST(SplitSyntax, AcceptsTheExpressionsOfKnownModels) {
  const std::string contractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))", spaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
                    upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])", lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  const std::vector<std::string> known{
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",                      // GPT-2
      contractions + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" + spaces,          // Llama 3
      contractions + R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" + spaces,   // Qwen
      R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*)" + spaces,  // cl100k
      R"([^\r\n\p{L}\p{N}]?)" + upper + "*" + lower + "+" + contractions + R"(?|[^\r\n\p{L}\p{N}]?)" + upper + "+" +
          lower + "*" + contractions + R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" + spaces,  // o200k
      R"([^\r\n\p{L}\p{N}]?)" + upper + "*" + lower + "+|" + upper + R"(+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" + spaces,
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" +
          spaces,  // DeepSeek V3
      "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+",
      R"(\s+$)",
      R"([\r\n])",
      R"(\s?[!-/:-~]+)",                                         // DeepSeek LLM
      " ?[^(\\s|[.,!?\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c])]+",  // BLOOM
      R"((?=(\d{3})+(?!\d)))",                                   // SuperBPE
      R"((?<=\p{N})(?=(?:\p{N}{3})+(?!\p{N})))",
      contractions + R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)" +
          spaces,
      R"((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z|<sentinel:[0-9]+>|([\t\n]|    |  )|[\p{P}!-/:-@\[-`{-~])"};  // Chameleon
  for (const std::string& expression : known) EXPECT_NO_THROW(SplitPattern(expression, "here")) << expression;
}

}  // namespace
}  // namespace wmtp
