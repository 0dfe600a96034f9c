#include "core/tokenizer/tokenizer_json.hpp"

#include "support/data_fixture.hpp"
#include "support/made_tokenizer.hpp"

namespace wmtp {
namespace {

using nlohmann::json;
using FirstMark = TokenizerJson::FirstMark;

class TokenizerJsonTest : public DataTest {
 protected:
  TokenizerJson read(const json& said) const { return read_tokenizer_json(write("tokenizer.json", said.dump())); }
  void expect_refused(const json& said, const std::string& part) const {
    const std::string told = error_of(ExitStatus::data, [&] { read(said); });
    EXPECT_TRUE(has(told, "tokenizer.json: ") && has(told, part)) << told;
  }
};

TEST_F(TokenizerJsonTest, TokensAreTheBytesThatTheirLettersStandFor) {
  json said = byte_level_json();
  said["model"]["vocab"]["\xc4\xa0\xc4\x8a\xc3\xa9"] = 261;  // U+0120, U+010A, é: a space, a newline, the byte E9
  const TokenizerJson bpe = read(said);
  ASSERT_EQ(bpe.tokens.size(), 262u);
  EXPECT_EQ(bpe.tokens[258], " ab");
  EXPECT_EQ(bpe.tokens[261], " \n\xe9");
  EXPECT_EQ(bpe.tokens[0], std::string(1, '\0'));
  EXPECT_EQ(bpe.byte_ids[200], 200);
  ASSERT_EQ(bpe.merges.size(), 3u);
  EXPECT_EQ(bpe.merges[2].left, 256);
  EXPECT_EQ(bpe.merges[2].right, 'b');
  EXPECT_EQ(bpe.merges[2].made, 258);
  ASSERT_EQ(bpe.added.size(), 2u);
  EXPECT_TRUE(bpe.added[0].special);
  EXPECT_FALSE(bpe.added[1].special);
  EXPECT_TRUE(bpe.characters.empty());
}

TEST_F(TokenizerJsonTest, WordsAreCutByItsPreTokenizersInTurn) {
  json said = byte_level_json();
  EXPECT_EQ(read(said).splits.size(), 1u) << "GPT-2's";
  said["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"String", "a.b"}}}, {"behavior", "Isolated"}, {"invert", false}},
        {{"type", "Split"}, {"pattern", {{"Regex", "\\p{L}+"}}}, {"behavior", "Removed"}, {"invert", true}},
        {{"type", "Digits"}, {"individual_digits", true}},
        {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}}}}};
  const TokenizerJson bpe = read(said);
  ASSERT_EQ(bpe.splits.size(), 3u);
  EXPECT_EQ(bpe.splits[0].expression, "a\\.b");
  EXPECT_FALSE(bpe.splits[0].keeps_matches_alone);
  EXPECT_TRUE(bpe.splits[1].keeps_matches_alone);
  EXPECT_EQ(bpe.splits[2].expression, "\\p{N}");
  EXPECT_TRUE(bpe.add_prefix_space);
  EXPECT_EQ(bpe.prefixed_split, 3u);
}

TEST_F(TokenizerJsonTest, ASequenceOfOnePartIsThatPartAndOneOfNoneIsNothing) {
  const auto none = [](const char* list) { return json{{"type", "Sequence"}, {list, json::array()}}; };
  json said = byte_level_json();
  said["normalizer"] = none("normalizers");
  said["post_processor"] = none("processors");
  said["decoder"] = none("decoders");
  EXPECT_FALSE(read(said).composes);
  said["normalizer"]["normalizers"] = json::array({json{{"type", "NFC"}}});
  EXPECT_TRUE(read(said).composes);
  json pieces = sentencepiece_json();
  pieces["pre_tokenizer"] = none("pretokenizers");
  EXPECT_EQ(read(pieces).first_mark, read(sentencepiece_json()).first_mark);
}

TEST_F(TokenizerJsonTest, OfSentencePiecesKindHasCharactersBytesAndMarks) {
  json said = sentencepiece_json();
  const TokenizerJson bpe = read(said);
  EXPECT_TRUE(bpe.byte_fallback);
  EXPECT_EQ(bpe.first_mark, FirstMark::always);
  EXPECT_EQ(bpe.tokens[262], " a");
  EXPECT_EQ(bpe.tokens[3 + '\n'], "\n");
  EXPECT_EQ(bpe.byte_ids[0xff], 3 + 0xff);
  EXPECT_EQ(bpe.characters.size(), 4u) << "U+2581, a, b, é";
  EXPECT_EQ(bpe.characters.at("\xc3\xa9"), 264);
  EXPECT_EQ(bpe.before_text, std::vector<int32_t>{1});
  said["normalizer"] = nullptr;
  for (const auto& [scheme, wanted] : std::map<std::string, FirstMark>{
           {"never", FirstMark::none}, {"first", FirstMark::text}, {"always", FirstMark::missing}}) {
    said["pre_tokenizer"] = metaspace(scheme);
    EXPECT_EQ(read(said).first_mark, wanted) << scheme;
  }
}

TEST_F(TokenizerJsonTest, OfSentencePiecesKindIsRefusedWhereItMeansSomethingElse) {
  const auto refuse = [&](const std::string& part, const std::function<void(json&)>& change) {
    json said = sentencepiece_json();
    change(said);
    expect_refused(said, part);
  };
  refuse("normalizer holds \"NFKC\"", [](json& said) { said["normalizer"]["normalizers"][0] = {{"type", "NFKC"}}; });
  refuse("normalizer replaces no spaces", [](json& said) { said["normalizer"]["normalizers"].erase(1); });
  refuse("normalizer holds", [](json& said) { said["normalizer"] = nullptr; });
  refuse("wanted null beside a pre_tokenizer", [](json& said) { said["pre_tokenizer"] = metaspace("first"); });
  refuse("pre_tokenizer Metaspace has split true", [](json& said) {
    said["normalizer"] = nullptr;
    said["pre_tokenizer"] = metaspace("first", true);
  });
  refuse("wanted Metaspace with U+2581 and a prepend_scheme", [](json& said) {
    said["normalizer"] = nullptr;
    said["pre_tokenizer"] = metaspace("sometimes");
  });
  refuse("the byte 10 is no token", [](json& said) { said["model"]["vocab"].erase("<0x0A>"); });
  refuse("ignore_merges is true", [](json& said) { said["model"]["ignore_merges"] = true; });
  refuse("\"</s>\" has normalized true", [](json& said) { said["added_tokens"][2]["normalized"] = true; });
  refuse("decoder is \"ByteLevel\"", [](json& said) { said["decoder"] = {{"type", "ByteLevel"}}; });
}

TEST_F(TokenizerJsonTest, WhatStandsBeforeATextIsTheTemplates) {
  json said = byte_level_json();
  const json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json end{{"SpecialToken", {{"id", "<end>"}, {"type_id", 0}}}};
  said["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {end, end, text}},
                            {"special_tokens", {{"<end>", {{"id", "<end>"}, {"ids", {259}}}}}}};
  EXPECT_EQ(read(said).before_text, (std::vector<int32_t>{259, 259}));
  said["post_processor"] = {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, said["post_processor"]}}};
  EXPECT_EQ(read(said).before_text, (std::vector<int32_t>{259, 259})) << "as Llama 3.1 has it";
  said["post_processor"]["processors"][1]["single"] = {text, end};
  expect_refused(said, "behind the text");
  said["post_processor"]["processors"][1]["single"] = {end, text};
  said["post_processor"]["processors"][1]["special_tokens"]["<end>"]["ids"] = {300};
  expect_refused(said, "names the id \"300\"");
}

TEST_F(TokenizerJsonTest, AnAddedTokenHasTheIdThatItHasInTheVocabulary) {
  json said = byte_level_json();
  said["model"]["vocab"]["<end>"] = 259;
  EXPECT_EQ(read(said).tokens.size(), 261u);
  said["model"]["vocab"]["<end>"] = 70000;  // beyond the ids that are counted
  expect_refused(said, "the added token \"<end>\" has the id 259, in model vocab another");
  said["model"]["vocab"].erase("<end>");
  said["added_tokens"][0] = added(259, "a");  // the byte's token
  expect_refused(said, "the added token \"a\" has the id 259, in model vocab another");
}

TEST_F(TokenizerJsonTest, AFileThatIsNotOneIsRefused) {
  expect_refused("text", "");
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { read_tokenizer_json(folder_ / "none.json"); }), "check the path"));
  const auto file = write("twice.json", R"({"model": {}, "model": {}})");
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { read_tokenizer_json(file); }), "twice"));
}

}  // namespace
}  // namespace wmtp
