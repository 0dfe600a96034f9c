#include "evaluate/extraction.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

std::string strict(const std::string& answer) {
  return normalized_number(extracted_number(answer, Extraction::strict));
}
std::string flexible(const std::string& answer) {
  return normalized_number(extracted_number(answer, Extraction::flexible));
}

TEST(Extraction, StrictReturnsTheNumberAfterTheFirstMark) {
  EXPECT_EQ(strict("2 and 3 make\n#### 5"), "5");
  EXPECT_EQ(strict("#### -1,234.50\n#### 6"), "-1234.50");
  EXPECT_EQ(strict("#### none\n#### 7 8"), "7");
  EXPECT_EQ(strict("#### 18."), "18");
  for (const std::string none : {"", "the answer is 5", "####5", "#### $5", "#### five", "#### -"})
    EXPECT_EQ(strict(none), "[invalid]") << none;
}

TEST(Extraction, FlexibleReturnsTheLastNumber) {
  EXPECT_EQ(flexible("2 + 3 = 5"), "5");
  EXPECT_EQ(flexible("A: $1,234.50 in all."), "1234.50");
  EXPECT_EQ(flexible("it is 18. So done."), "18");
  EXPECT_EQ(flexible("3-5"), "-5");
  EXPECT_EQ(flexible("a 7 - b"), "7");
  EXPECT_EQ(flexible("7, or so"), "7");
  EXPECT_EQ(flexible("7 .. more"), ".") << "two full stops are taken for a number there too";
  for (const std::string none : {"", "none", "-", "$ . ,"}) EXPECT_EQ(flexible(none), "[invalid]") << none;
}

TEST(Extraction, AProgramIsTheFirstBlockOfCodeOrTheWholeAnswer) {
  EXPECT_EQ(extracted_program("Here:\n```python\ndef f():\n    return 1\n```\nUse:\n```\nf()\n```\n"),
            "def f():\n    return 1\n");
  EXPECT_EQ(extracted_program("```\nx = 1\n"), "x = 1\n") << "not closed";
  for (const std::string whole : {"x = 1", "", "x = '```'\n"}) EXPECT_EQ(extracted_program(whole), whole);
  for (const std::string empty : {"```", "```py\n", "```\n```"}) EXPECT_EQ(extracted_program(empty), "") << empty;
}

TEST(Extraction, ARightAnswerIsComparedFromItsLastMark) {
  EXPECT_EQ(normalized_number("3 times $1,000\n#### 1\n#### 3,000"), "3000");
  EXPECT_EQ(normalized_number("18.\n"), "18\n");
  EXPECT_EQ(normalized_number("Yes.."), "yes.");
  EXPECT_EQ(normalized_number(""), "");
}

}  // namespace
}  // namespace wmtp
