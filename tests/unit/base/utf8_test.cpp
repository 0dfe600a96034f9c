#include "base/utf8.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

const std::string replaced = "\xef\xbf\xbd";

TEST(Utf8, RefusesOverlongFormsSurrogatesAndTooLargeCharacters) {
  EXPECT_EQ(valid_utf8_prefix("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), 10u);
  for (const char* bad :
       {"\xc0\xaf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\x80", "\xff"})
    EXPECT_EQ(valid_utf8_prefix(std::string("ab") + bad), 2u);
}

/// Like Python's decode(errors="replace"): one U+FFFD for each maximal beginning of a character.
TEST(Utf8, IsRepairedAsByPython) {
  EXPECT_EQ(repaired_utf8("a\xff\xfe"
                          "b"),
            "a" + replaced + replaced + "b");
  EXPECT_EQ(repaired_utf8("\xe2\x82"
                          "c"),
            replaced + "c");
  EXPECT_EQ(repaired_utf8("\xed\xa0\x80"), replaced + replaced + replaced);
  EXPECT_EQ(repaired_utf8("\xf0\x9f\x98"), replaced);
  EXPECT_EQ(repaired_utf8("\xf4\x90\x80\x80"), replaced + replaced + replaced + replaced);
  EXPECT_EQ(repaired_utf8("\xc3\xa9"), "\xc3\xa9");
}

TEST(Utf8, OfAnArgumentIsRequiredWithItsNameAndTheByte) {
  EXPECT_NO_THROW(check_is_utf8("caf\xc3\xa9", "--db"));
  EXPECT_EQ(test::refusal(ExitStatus::usage, [] { check_is_utf8("caf\xe9/x", "--db"); }),
            "--db is \"caf\xef\xbf\xbd/x\": found byte 0xe9, wanted UTF-8; rename it, or choose another");
}

TEST(Utf8, ExcludesAnIncompleteCharacterAtTheEnd) {
  EXPECT_EQ(complete_utf8_length("a\xe2\x82"), 1u);
  EXPECT_EQ(complete_utf8_length("a\xe2\x82\xac"), 4u);
  EXPECT_EQ(complete_utf8_length("a\xff"), 2u) << "nothing can make it whole";
  EXPECT_EQ(character_start("a\xe2\x82\xac", 3), 1u);
  EXPECT_EQ(character_start("a\xe2\x82\xac", 4), 4u);
}

TEST(Utf8, IsSplitBeforeTheLastNewlineOrTheLastCharacter) {
  EXPECT_EQ(split_point("ab\ncd\nef"), 5u);
  EXPECT_EQ(split_point("\nab\xc3\xa9"), 3u);
  EXPECT_EQ(split_point(""), 0u);
}

}  // namespace
}  // namespace wmtp
