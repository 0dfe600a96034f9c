#include "tokenizer/tokenizer_json.hpp"

#include "support/data_fixture.hpp"
#include "support/made_tokenizer.hpp"

namespace wmtp {
namespace {
using FirstMark = TokenizerJson::FirstMark;

class TokenizerJsonTest : public DataTest {
 protected:
  TokenizerJson read(const Json& document) const {
    return read_tokenizer_json(write("tokenizer.json", document.dump()));
  }
  void expect_refused(const Json& document, const std::string& part) const {
    const std::string message = error_of(ExitStatus::data, [&] { read(document); });
    EXPECT_TRUE(has(message, "tokenizer.json: ") && has(message, part)) << message;
  }
};

TEST_F(TokenizerJsonTest, ReadsTokensAsTheBytesOfTheirLetters) {
  Json document = byte_level_json();
  document["model"]["vocab"]["<end>"] = 259;
  document["model"]["vocab"]["<tool>"] = 260;
  document["model"]["vocab"]["\xc4\xa0\xc4\x8a\xc3\xa9"] = 261;  // U+0120, U+010A, é: a space, a newline, the byte E9
  const TokenizerJson bpe = read(document);
  ASSERT_EQ(bpe.tokens.size(), 262u);
  EXPECT_EQ(bpe.tokens[258], " ab");
  EXPECT_EQ(bpe.tokens[261], " \n\xe9");
  EXPECT_EQ(bpe.tokens[0], std::string(1, '\0'));
  EXPECT_EQ(bpe.byte_ids[200], 200);
  ASSERT_EQ(bpe.merges.size(), 3u);
  EXPECT_EQ(bpe.merges[2].left, 256);
  EXPECT_EQ(bpe.merges[2].right, 'b');
  EXPECT_EQ(bpe.merges[2].merged, 258);
  ASSERT_EQ(bpe.added.size(), 2u);
  EXPECT_TRUE(bpe.added[0].special);
  EXPECT_FALSE(bpe.added[1].special);
  EXPECT_TRUE(bpe.characters.empty());
}

TEST_F(TokenizerJsonTest, ReadsPreTokenizersInTheirOrder) {
  Json document = byte_level_json();
  EXPECT_EQ(read(document).splits.size(), 1u) << "that of GPT-2";
  document["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"String", "a.b"}}}, {"behavior", "Isolated"}, {"invert", false}},
        {{"type", "Split"}, {"pattern", {{"Regex", "\\p{L}+"}}}, {"behavior", "Removed"}, {"invert", true}},
        {{"type", "Digits"}, {"individual_digits", true}},
        {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}}}}};
  const TokenizerJson bpe = read(document);
  ASSERT_EQ(bpe.splits.size(), 3u);
  EXPECT_EQ(bpe.splits[0].expression, "a\\.b");
  EXPECT_FALSE(bpe.splits[0].keeps_only_matches);
  EXPECT_TRUE(bpe.splits[1].keeps_only_matches);
  EXPECT_EQ(bpe.splits[2].expression, "\\p{N}");
  EXPECT_TRUE(bpe.add_prefix_space);
  EXPECT_EQ(bpe.prefixed_split, 3u);
}

TEST_F(TokenizerJsonTest, ASequenceOfOnePartEqualsThePartAndAnEmptyOneEqualsNull) {
  const auto none = [](const char* list) { return Json{{"type", "Sequence"}, {list, Json::array()}}; };
  Json document = byte_level_json();
  document["normalizer"] = none("normalizers");
  document["post_processor"] = none("processors");
  document["decoder"] = none("decoders");
  EXPECT_FALSE(read(document).normalizes_to_nfc);
  document["normalizer"]["normalizers"] = Json::array({Json{{"type", "NFC"}}});
  EXPECT_TRUE(read(document).normalizes_to_nfc);
  Json pieces = sentencepiece_json();
  pieces["pre_tokenizer"] = none("pretokenizers");
  EXPECT_EQ(read(pieces).first_mark, read(sentencepiece_json()).first_mark);
}

TEST_F(TokenizerJsonTest, ReadsCharactersBytesAndMarksOfASentencePieceModel) {
  Json document = sentencepiece_json();
  const TokenizerJson bpe = read(document);
  EXPECT_TRUE(bpe.byte_fallback);
  EXPECT_EQ(bpe.first_mark, FirstMark::always);
  EXPECT_TRUE(bpe.marks_early);
  EXPECT_EQ(bpe.tokens[262], " a");
  EXPECT_EQ(bpe.tokens[3 + '\n'], "\n");
  EXPECT_EQ(bpe.byte_ids[0xff], 3 + 0xff);
  EXPECT_EQ(bpe.characters.size(), 4u) << "U+2581, a, b, é";
  EXPECT_EQ(bpe.characters.at("\xc3\xa9"), 264);
  EXPECT_EQ(bpe.prefix_ids, std::vector<int32_t>{1});
  document["normalizer"] = nullptr;
  for (const auto& [scheme, wanted] : std::map<std::string, FirstMark>{
           {"never", FirstMark::none}, {"first", FirstMark::text}, {"always", FirstMark::missing}}) {
    document["pre_tokenizer"] = metaspace(scheme);
    EXPECT_EQ(read(document).first_mark, wanted) << scheme;
    EXPECT_FALSE(read(document).marks_early) << scheme;
  }
}

TEST_F(TokenizerJsonTest, IgnoresASplitAtSpacesThatTheNormalizerHasReplaced) {
  Json document = sentencepiece_json();
  document["normalizer"] = document["normalizer"]["normalizers"][1];
  document["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
  EXPECT_EQ(read(document).first_mark, FirstMark::none) << "as in Gemma";
  EXPECT_TRUE(read(document).marks_early);
  document["pre_tokenizer"]["invert"] = true;
  expect_refused(document, "wanted null with a pre_tokenizer");
  document["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
  expect_refused(document, "wanted null with a pre_tokenizer");
}

TEST_F(TokenizerJsonTest, RefusesUnsupportedSettingsOfASentencePieceModel) {
  const auto refuse = [&](const std::string& part, const std::function<void(Json&)>& change) {
    Json document = sentencepiece_json();
    change(document);
    expect_refused(document, part);
  };
  refuse("normalizer contains \"NFKC\"", [](Json& document) {
    document["normalizer"]["normalizers"][0] = {{"type", "NFKC"}};
  });
  refuse("normalizer replaces no spaces", [](Json& document) { document["normalizer"]["normalizers"].erase(1); });
  refuse("normalizer contains", [](Json& document) { document["normalizer"] = nullptr; });
  refuse("wanted null with a pre_tokenizer", [](Json& document) { document["pre_tokenizer"] = metaspace("first"); });
  refuse("pre_tokenizer Metaspace has split true", [](Json& document) {
    document["normalizer"] = nullptr;
    document["pre_tokenizer"] = metaspace("first", true);
  });
  refuse("wanted Metaspace with U+2581 and a prepend_scheme", [](Json& document) {
    document["normalizer"] = nullptr;
    document["pre_tokenizer"] = metaspace("sometimes");
  });
  refuse("the byte 10 is not a token", [](Json& document) { document["model"]["vocab"].erase("<0x0A>"); });
  refuse("ignore_merges is true", [](Json& document) { document["model"]["ignore_merges"] = true; });
  refuse("decoder is \"ByteLevel\"", [](Json& document) { document["decoder"] = {{"type", "ByteLevel"}}; });
}

TEST_F(TokenizerJsonTest, RefusesUnsupportedSettingsOfAByteLevelModel) {
  const auto refuse = [&](const std::string& part, const std::function<void(Json&)>& change) {
    Json document = byte_level_json();
    change(document);
    expect_refused(document, part);
  };
  const auto with_split = [](const Json& split) {
    return Json{{"type", "Sequence"}, {"pretokenizers", {split, {{"type", "ByteLevel"}, {"use_regex", false}}}}};
  };
  refuse("normalizer is \"NFKC\"", [](Json& document) { document["normalizer"] = {{"type", "NFKC"}}; });
  refuse("model is \"WordPiece\"", [](Json& document) { document["model"]["type"] = "WordPiece"; });
  refuse("pre_tokenizer is \"Metaspace\"", [](Json& document) { document["pre_tokenizer"] = {{"type", "Metaspace"}}; });
  refuse("pre_tokenizer contains \"Whitespace\"", [&](Json& document) {
    document["pre_tokenizer"] = with_split({{"type", "Whitespace"}});
  });
  refuse("pre_tokenizer Split has the behavior \"MergedWithNext\"", [&](Json& document) {
    document["pre_tokenizer"] = with_split(
        {{"type", "Split"}, {"pattern", {{"Regex", "x"}}}, {"behavior", "MergedWithNext"}, {"invert", false}});
  });
  refuse("pre_tokenizer Split has an empty String", [&](Json& document) {
    document["pre_tokenizer"] =
        with_split({{"type", "Split"}, {"pattern", {{"String", ""}}}, {"behavior", "Isolated"}, {"invert", false}});
  });
  refuse("decoder is \"WordPiece\"", [](Json& document) { document["decoder"] = {{"type", "WordPiece"}}; });
  refuse("post_processor is \"BertProcessing\"", [](Json& document) {
    document["post_processor"] = {{"type", "BertProcessing"}};
  });
  refuse("the added token \"<tool>\" has single_word true",
         [](Json& document) { document["added_tokens"][1]["single_word"] = true; });
  refuse("model dropout is \"0.5\"", [](Json& document) { document["model"]["dropout"] = 0.5; });
  refuse("the byte 33 is not a token; wanted all 256, or no unk_token", [](Json& document) {
    document["model"]["vocab"].erase("!");
    document["model"]["unk_token"] = "<|end|>";
  });
  refuse("merges: \"nowhere\" is not in the vocabulary",
         [](Json& document) { document["model"]["merges"].push_back("nowhere t"); });
  refuse("two tokens have the id 257", [](Json& document) { document["model"]["vocab"]["aaaa"] = 257; });
}

TEST_F(TokenizerJsonTest, IgnoresTruncationAndPaddingAsTransformersDoes) {
  Json document = byte_level_json();
  document["truncation"] = {{"direction", "Right"}, {"max_length", 5}, {"strategy", "LongestFirst"}, {"stride", 0}};
  document["padding"] = {{"strategy", {{"Fixed", 8}}}, {"pad_id", 259}, {"pad_token", "<end>"}};
  EXPECT_EQ(read(document).tokens, read(byte_level_json()).tokens);
}

TEST_F(TokenizerJsonTest, ReadsTheIdsBeforeATextFromTheTemplate) {
  Json document = byte_level_json();
  const Json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json end{{"SpecialToken", {{"id", "<end>"}, {"type_id", 0}}}};
  document["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {end, end, text}},
                                {"special_tokens", {{"<end>", {{"id", "<end>"}, {"ids", {259}}}}}}};
  EXPECT_EQ(read(document).prefix_ids, (std::vector<int32_t>{259, 259}));
  document["post_processor"] = {{"type", "Sequence"},
                                {"processors", {{{"type", "ByteLevel"}}, document["post_processor"]}}};
  EXPECT_EQ(read(document).prefix_ids, (std::vector<int32_t>{259, 259})) << "as in Llama 3.1";
  document["post_processor"]["processors"][1]["single"] = {text, end};
  expect_refused(document, "after the text");
  document["post_processor"]["processors"][1]["single"] = {end, text};
  document["post_processor"]["processors"][1]["special_tokens"]["<end>"]["ids"] = {300};
  expect_refused(document, "names the id \"300\"");
}

TEST_F(TokenizerJsonTest, RefusesAnAddedTokenWhoseIdDiffersFromTheVocabulary) {
  Json document = byte_level_json();
  document["model"]["vocab"]["<end>"] = 259;
  EXPECT_EQ(read(document).tokens.size(), 261u);
  document["model"]["vocab"]["<end>"] = 70000;  // above the largest id
  expect_refused(document, "the added token \"<end>\" has the id 259, but another in model vocab");
  document["model"]["vocab"].erase("<end>");
  document["added_tokens"][0] = added(259, "a");  // the byte's token
  expect_refused(document, "the added token \"a\" has the id 259, but another in model vocab");
}

TEST_F(TokenizerJsonTest, RefusesAnAddedTokenThatTheLibraryWouldNumberAnew) {
  Json document = byte_level_json();
  document["added_tokens"][1] = added(300, "<tool>", false);
  expect_refused(document, "the added token \"<tool>\" has the id 300, wanted 260, as the tokenizers library numbers");
  document["model"]["vocab"]["<tool>"] = 300;
  document["added_tokens"].push_back(added(301, "<next>"));
  expect_refused(document, "\"<end>\" has the id 259, wanted 260");
  document["model"]["vocab"]["<end>"] = 259;
  EXPECT_EQ(read(document).added.size(), 3u) << "continues the largest id";
  document["added_tokens"].push_back(added(301, "<next>"));
  EXPECT_EQ(read(document).added.size(), 4u) << "the same token again";
}

TEST_F(TokenizerJsonTest, RefusesAnAddedTokenWithTwoIds) {
  Json document = byte_level_json();
  const Json first = document["added_tokens"][0];
  document["added_tokens"].push_back(added(261, first["content"]));
  expect_refused(document, "has the ids " + std::to_string(first["id"].get<int>()) + " and 261, wanted one");
}

TEST_F(TokenizerJsonTest, RefusesTemplatesThatDoNotContainTheTextOnce) {
  Json document = sentencepiece_json();
  const Json one = document["post_processor"];
  document["post_processor"] = {{"type", "Sequence"}, {"processors", {one, one}}};
  expect_refused(document, "post_processor has a second TemplateProcessing");
  document["post_processor"] = one;
  document["post_processor"]["single"].erase(1);
  expect_refused(document, "TemplateProcessing lacks the text");
  document["post_processor"]["single"] = {one["single"][1], one["single"][1]};
  expect_refused(document, "TemplateProcessing has the text twice");
}

TEST_F(TokenizerJsonTest, RefusesAFileThatIsNotATokenizerJson) {
  expect_refused("text", "");
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { read_tokenizer_json(folder_ / "none.json"); }), "check the path"));
  const auto file = write("twice.json", R"({"model": {}, "model": {}})");
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { read_tokenizer_json(file); }), "twice"));
}

}  // namespace
}  // namespace wmtp
