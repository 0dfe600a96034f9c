#include "tokenizer/token_table.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/error.hpp"

namespace wmtp {
namespace {

TEST(TokenTable, FindsTokensByTheirText) {
  TokenTable table;
  for (uint64_t id = 0; id < 5000; ++id) EXPECT_TRUE(table.add("token " + std::to_string(id), id * 3));
  EXPECT_FALSE(table.add("token 17", 1));
  EXPECT_TRUE(table.add("", uint64_t{1} << 40));
  ASSERT_EQ(table.size(), 5001u);
  EXPECT_EQ(table.token(17), "token 17");
  EXPECT_EQ(table.find("token 4999"), 14997u);
  EXPECT_EQ(table.find("token 17"), 51u);
  EXPECT_EQ(table.find(""), 0xffffffffu);
  EXPECT_EQ(table.find("token"), std::nullopt);
}

TEST(TokenLists, TakeTheVocabularyAndTheMergesOutOfTheDocument) {
  TokenLists lists;
  const auto document = parse_tokenizer_json(
      R"({"vocab": {"x": 1}, "model": {"merges": ["a b", ["c d", "e"]], "type": "BPE", "vocab": {"a": 0, "b": 7}}})",
      "t.json", lists);
  EXPECT_EQ(document.dump(), R"({"model":{"merges":null,"type":"BPE","vocab":null},"vocab":{"x":1}})");
  EXPECT_TRUE(lists.is_object && lists.is_list);
  EXPECT_EQ(lists.vocabulary.size(), 2u);
  EXPECT_EQ(lists.vocabulary.find("b"), 7u);
  ASSERT_EQ(lists.merges.size(), 2u);
  EXPECT_EQ(lists.merges.left(1), "c d");
  EXPECT_EQ(lists.merges.right(1), "e");
}

TEST(TokenLists, RememberTheFirstMistakeOfEach) {
  const auto merges_mistake = [](const std::string& merges) {
    TokenLists lists;
    parse_tokenizer_json(R"({"model": {"merges": [["a", "b"], )" + merges + "]}}", "t.json", lists);
    return lists.merges_mistake;
  };
  EXPECT_EQ(merges_mistake(R"("ab", 5)"), R"("ab")");
  EXPECT_EQ(merges_mistake("5"), R"("5")");
  EXPECT_EQ(merges_mistake(R"(["a"])"), R"("["a"]")");
  EXPECT_EQ(merges_mistake(R"(["a", 5])"), R"("["a",5]")");
  EXPECT_EQ(merges_mistake(R"({"a": "b"})"), R"("{}")");
  EXPECT_EQ(merges_mistake(R"(["a", "b c"])"), R"("["a","b c"]")");
  EXPECT_EQ(merges_mistake(R"([["a"], "b"])"), R"("[[],"b"]")");
  EXPECT_EQ(merges_mistake(R"(["a", ""])"), R"("["a",""]")");
  TokenLists lists;
  parse_tokenizer_json(R"({"model": {"vocab": {"a": 0, "b": -1, "c": {}}}})", "t.json", lists);
  EXPECT_EQ(lists.vocabulary_mistake, R"(the token "b" has the id "-1")");
  TokenLists beyond;
  parse_tokenizer_json(R"({"model": {"vocab": {"a": 4611686018427387904}}})", "t.json", beyond);
  EXPECT_EQ(beyond.vocabulary_mistake, R"(the token "a" has the id "4611686018427387904")");
  TokenLists others;
  parse_tokenizer_json(R"({"model": {"vocab": [["a", 0]], "merges": {"a": "b"}}})", "t.json", others);
  EXPECT_FALSE(others.is_object || others.is_list);
  EXPECT_EQ(others.vocabulary_mistake + others.merges_mistake, "");
}

TEST(TokenLists, AreReadAsStrictlyAsTheDocument) {
  const auto error_of = [](const std::string& text) -> std::string {
    TokenLists lists;
    try {
      parse_tokenizer_json(text, "t.json", lists);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error_of(R"({"model": {"vocab": {"a": 0, "a": 0}}})").find("key \"a\" occurs twice"), std::string::npos);
  EXPECT_NE(error_of(R"({"model": {"vocab": {}, "vocab": {}}})").find("key \"vocab\" occurs twice"), std::string::npos);
  EXPECT_NE(
      error_of(R"({"model": {"merges": )" + std::string(40, '[') + std::string(40, ']') + "}}").find("levels deep"),
      std::string::npos);
  EXPECT_NE(error_of(R"({"model": {"vocab": {"a": 0)").find("invalid JSON"), std::string::npos);
}

TEST(TokenLists, TakeAFewTimesTheSizeOfTheFile) {
  std::string text = R"({"model": {"vocab": {"a": 0)", merges;
  for (int i = 1; i < 200'000; ++i) text += ",\"t" + std::to_string(i) + "\":" + std::to_string(i);
  for (int i = 0; i < 300'000; ++i) merges += i ? R"(,["a","b"])" : R"(["a","b"])";
  text += R"(},"merges":[)" + merges + "]}}";
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  TokenLists lists;
  parse_tokenizer_json(text, "t.json", lists);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_EQ(lists.merges.size(), 300'000u);
  EXPECT_LT((after.ru_maxrss - before.ru_maxrss) * 1024, 4 * int64_t(text.size()));
}

}  // namespace
}  // namespace wmtp
