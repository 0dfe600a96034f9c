#include "tokenizer/added_tokens.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace wmtp {
namespace {

AddedTokens made() {
  AddedTokens tokens;
  int32_t id = 0;
  for (const char* content : {"<a>", "<a><b>", "b>", "\xe2\x96\x81"})
    tokens.add(content, {++id, content, false, false});
  tokens.sort();
  return tokens;
}

void expect_found(const AddedTokens& tokens, const std::string& text, size_t from, size_t begin, size_t end,
                  int32_t id) {
  const auto found = tokens.find(text, from);
  ASSERT_TRUE(found) << text;
  EXPECT_EQ(found->begin, begin) << text;
  EXPECT_EQ(found->end, end) << text;
  EXPECT_EQ(found->token->id, id) << text;
}

TEST(AddedTokens, FindsTheLeftmostAndThereTheLongestToken) {
  const AddedTokens tokens = made();
  expect_found(tokens, "x<a><b>", 0, 1, 7, 2);
  expect_found(tokens, "x<a><b", 0, 1, 4, 1);
  expect_found(tokens, "<<a>", 0, 1, 4, 1);
  expect_found(tokens, "x<a>b>", 2, 4, 6, 3);
  expect_found(tokens, "x\xe2\x96\x81", 0, 1, 4, 4);
  EXPECT_EQ(tokens.longest(), 6u);
}

TEST(AddedTokens, TakesTheLastOfEqualOnes) {
  AddedTokens tokens;
  for (const int32_t id : {5, 3, 4}) tokens.add("<a>", {id, "<a>", false, false});
  tokens.add("<", {9, "<", false, false});
  tokens.sort();
  expect_found(tokens, "<a><", 0, 0, 3, 4);
  expect_found(tokens, "<a><", 1, 3, 4, 9);
}

TEST(AddedTokens, TakeLittleMoreMemoryThanTheirContents) {
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  AddedTokens tokens;
  for (int32_t id = 0; id < 100'000; ++id) {
    const std::string content = "<" + std::to_string(id * 7919 % 100'000) + std::string(100, '.') + ">";
    tokens.add(content, {id, "", false, false});
  }
  tokens.sort();
  getrusage(RUSAGE_SELF, &after);
  EXPECT_TRUE(tokens.find("<99999" + std::string(100, '.') + ">", 0));
  EXPECT_LT((after.ru_maxrss - before.ru_maxrss) * 1024, 5 * 100'000 * 107);
}

TEST(AddedTokens, FindsNoIncompleteToken) {
  EXPECT_FALSE(made().find("<a <b \xe2\x96", 0));
  EXPECT_FALSE(made().find("<a>", 1));
  EXPECT_FALSE(AddedTokens().find("<a>", 0));
  EXPECT_EQ(AddedTokens().longest(), 0u);
}

}  // namespace
}  // namespace wmtp
