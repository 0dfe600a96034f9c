#include "huggingface/params_file.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {
using Ids = std::vector<int64_t>;

TEST(EndTokens, AreThoseOfTheModelAndOfItsSettingsOfGeneration) {
  TestFolder folder;
  EXPECT_EQ(end_tokens(folder / "."), Ids{});
  put(folder / "config.json", R"({"eos_token_id": null})");
  EXPECT_EQ(end_tokens(folder / "."), Ids{});
  put(folder / "config.json", R"({"eos_token_id": 5})");
  put(folder / "generation_config.json", R"({"eos_token_id": [7, 5, 9], "temperature": 0.6})");
  EXPECT_EQ(end_tokens(folder / "."), (Ids{5, 7, 9}));
  put(folder / "params.json", R"({"eos_token_id": [9, 11]})");
  EXPECT_EQ(end_tokens(folder / "."), (Ids{9, 11, 5, 7}));
}

TEST(EndTokens, OfAMalformedFileAreRefused) {
  TestFolder folder;
  for (const char* text : {R"({"eos_token_id": "</s>"})", R"({"eos_token_id": [-1]})", "[]"}) {
    put(folder / "generation_config.json", text);
    EXPECT_THROW(end_tokens(folder / "."), Error) << text;
  }
}

TEST(TokenIds, AreWrittenAsOneAListOrNone) {
  EXPECT_EQ(token_ids_json({}), Json());
  EXPECT_EQ(token_ids_json({5}), Json(5));
  EXPECT_EQ(token_ids_json({5, 7}), Json({5, 7}));
}

}  // namespace
}  // namespace wmtp::test
