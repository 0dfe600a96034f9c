// What of an answer is shown, whichever pieces it comes in.
#include "inference/answer_text.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

/// The answer in pieces of this many bytes, until it ends, and what was shown on the way.
std::pair<std::string, std::string> decoded(const AnswerLimits& limits, const std::string& all, size_t bytes) {
  AnswerText answer(limits);
  std::string shown;
  for (size_t at = 0; at < all.size(); at += bytes) {
    const bool goes_on = answer.add(all.substr(at, bytes));
    shown += answer.take_certain();
    if (!goes_on) break;
  }
  shown += answer.take_rest();
  return {answer.text(), shown};
}

void expect_text(const AnswerLimits& limits, const std::string& all, const std::string& wanted) {
  for (size_t bytes = 1; bytes <= all.size(); ++bytes) {
    const auto [text, shown] = decoded(limits, all, bytes);
    EXPECT_EQ(text, wanted) << all << " in pieces of " << bytes;
    EXPECT_EQ(shown, wanted) << all << " in pieces of " << bytes;
  }
}

TEST(AnswerText, EndsBeforeTheFirstStop) {
  const AnswerLimits limits{.stops = {"<|im_end|>", "\ndef"}};
  expect_text(limits, "Hi.<|im_end|>\nmore", "Hi.");
  expect_text(limits, "a\nde\ndef<|im_end|>", "a\nde");
  expect_text(limits, "a<<|im_end|>", "a<");
  expect_text(limits, "a <|im_en", "a <|im_en");
  expect_text({}, "a\n", "a\n");
}

TEST(AnswerText, IsWithoutTheSpacesOfTheTemplate) {
  const AnswerLimits limits{.stops = {"END"}, .before = "\n\n", .after = " "};
  expect_text(limits, "\n\n Hi   END", " Hi  ");
  expect_text(limits, "\nHi END", "\nHi");
  expect_text(limits, "Hi EN D", "Hi EN D");
  expect_text(limits, "\n", "\n");
}

TEST(AnswerText, ShowsWhatIsCertain) {
  AnswerText answer({.stops = {"<end>"}, .before = " ", .after = "\n"});
  answer.add(" ");
  EXPECT_EQ(answer.take_certain(), "");
  answer.add("Hi<e");
  EXPECT_EQ(answer.take_certain(), "Hi");
  answer.add("m>\n");
  EXPECT_EQ(answer.take_certain(), "<em>");
  answer.add("x");
  EXPECT_EQ(answer.take_certain(), "\nx");
  EXPECT_FALSE(answer.add("<end>"));
  EXPECT_EQ(answer.take_rest(), "");
}

}  // namespace
}  // namespace wmtp
