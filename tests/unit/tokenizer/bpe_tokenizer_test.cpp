#include "base/time_use.hpp"
#include "base/utf8.hpp"
#include "support/data_fixture.hpp"
#include "support/made_tokenizer.hpp"
#include "tokenizer/tokenizer.hpp"

namespace wmtp {
namespace {
using Ids = std::vector<int32_t>;

class JsonTokenizerTest : public DataTest {
 protected:
  std::unique_ptr<Tokenizer> open(const Json& document, const std::string& end = "<end>") const {
    write("tokenizer_config.json", Json{{"eos_token", end}}.dump());
    return json_tokenizer(write("tokenizer.json", document.dump()));
  }
};

TEST_F(JsonTokenizerTest, EncodesWordsMergesAndAddedTokens) {
  const auto tokenizer = open(byte_level_json());
  EXPECT_EQ(tokenizer->encode("ab ab a\nab"), (Ids{257, 258, 256, '\n', 257}));
  EXPECT_EQ(tokenizer->encode("a<end>b <tool>"), (Ids{'a', 259, 'b', ' ', 260}));
  EXPECT_EQ(tokenizer->encode("a b"), (Ids{'a', ' ', 'b'})) << "no merge crosses a word boundary";
  EXPECT_EQ(tokenizer->encode(""), Ids{});
  EXPECT_EQ(tokenizer->end_of_text(), 259);
  EXPECT_EQ(tokenizer->vocab_size(), 261);
}

TEST_F(JsonTokenizerTest, DecodesTextWithoutSpecialTokens) {
  const auto tokenizer = open(byte_level_json());
  EXPECT_EQ(tokenizer->decode({259, 258, 260, 0xc3, 0xa9, 1000, -1}), " ab<tool>\xc3\xa9");
}

TEST_F(JsonTokenizerTest, ShowsATokenWithTheNameOfASpecialOne) {
  const auto tokenizer = open(byte_level_json());
  EXPECT_EQ(token_text(tokenizer.get(), 258), " ab");
  EXPECT_EQ(token_text(tokenizer.get(), 259), "<end>");
  EXPECT_EQ(token_text(tokenizer.get(), 0xc3), "<0xC3>");
  EXPECT_EQ(token_text(tokenizer.get(), 1000), "<1000>");
  EXPECT_EQ(token_text(nullptr, 'a'), "<97>");
}

TEST(TokenText, NamesTheEndOfATextWithoutAName) {
  struct Bytes : Tokenizer {
    int64_t vocab_size() const override { return 258; }
    int64_t end_of_text() const override { return 256; }
    Reads reads() const override { return Reads::bytes; }
    Ids encode(std::string_view) const override { return {}; }
    std::string decode(const Ids& ids) const override { return ids[0] < 256 ? std::string(1, char(ids[0])) : ""; }
  };
  const Bytes tokenizer;
  EXPECT_EQ(token_text(&tokenizer, 256), "<end of text>");
  EXPECT_EQ(token_text(&tokenizer, 257), "<257>");
}

TEST_F(JsonTokenizerTest, ReplacesInvalidUtf8AsPythonDoes) {
  const Ids replaced{0xef, 0xbf, 0xbd};
  Ids wanted{'a'};
  for (int i = 0; i < 2; ++i) wanted.insert(wanted.end(), replaced.begin(), replaced.end());
  EXPECT_EQ(open(byte_level_json())->encode("a\xff\xe2\x82"), wanted)
      << "one for the byte, one for the incomplete character";
}

TEST_F(JsonTokenizerTest, NormalizesToNfcIfTheFileAsksForIt) {
  Json document = byte_level_json();
  EXPECT_EQ(open(document)->encode("e\xcc\x81"), (Ids{'e', 0xcc, 0x81}));
  document["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(open(document)->encode("e\xcc\x81"), (Ids{0xc3, 0xa9}));
}

TEST_F(JsonTokenizerTest, NormalizesManyMarksInALineOfTime) {
  Json document = byte_level_json();
  document["normalizer"] = {{"type", "NFC"}};
  const auto tokenizer = open(document);
  const auto bytes = [&](const std::string& text) { return tokenizer->decode(tokenizer->encode(text)); };
  EXPECT_EQ(bytes("e\xcc\x96\xcc\x81"), bytes("e\xcc\x81\xcc\x96")) << "in the order of their classes";
  EXPECT_EQ(bytes("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"), "\xea\xb0\x81") << "a syllable of Hangul";
  std::string grave, below, both;
  for (int i = 0; i < 40000; ++i) {
    both += "\xcc\x80\xcc\x96";
    below += "\xcc\x96";
    grave += i > 0 ? "\xcc\x80" : "";
  }
  const double before = processor_seconds();
  EXPECT_EQ(bytes("a" + both), "\xc3\xa0" + below + grave);
  std::string decomposes;  // into marks of two classes
  for (int i = 0; i < 40000; ++i) decomposes += "\xe0\xbd\xb3";
  bytes("a" + decomposes);
  EXPECT_LT(processor_seconds() - before, 5);
}

TEST_F(JsonTokenizerTest, AddsASpaceBeforeEveryPieceIfTheFileAsksForIt) {
  Json document = byte_level_json();
  document["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(open(document)->encode("ab<end>a"), (Ids{258, 259, 256}));
  EXPECT_EQ(open(document)->encode(" ab"), Ids{258});
}

/// `text` read up to `cut`, and then to its end.
Ids encoded_in_two_parts(const Tokenizer& tokenizer, std::string_view text, size_t cut) {
  Ids ids;
  const size_t taken = tokenizer.encode_begin(text.substr(0, cut), true, ids);
  EXPECT_LE(taken, cut);
  Ids rest;
  const int32_t before = ids.empty() ? -1 : ids.back();
  EXPECT_EQ(tokenizer.encode_begin(text.substr(taken), false, rest, before), text.size() - taken);
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

void expect_equal_ids_for_every_cut(const Tokenizer& tokenizer, std::string_view text) {
  const Ids whole = tokenizer.encode(text);
  for (size_t cut = 0; cut <= text.size(); ++cut)
    if (character_start(text, cut) == cut) {
      EXPECT_EQ(encoded_in_two_parts(tokenizer, text, cut), whole) << "cut at " << cut;
    }
}

TEST_F(JsonTokenizerTest, EncodesOfAnUnfinishedTextWhatNoFurtherTextCanChange) {
  const auto tokenizer = open(byte_level_json());
  expect_equal_ids_for_every_cut(*tokenizer, "ab ab <end> ab a");
  Ids ids;
  EXPECT_GT(tokenizer->encode_begin("ab ab ab ab ab ab", true, ids), 0u) << "part of the text is encoded early";
}

TEST_F(JsonTokenizerTest, EncodesAnUnfinishedTextEarlyAlsoIfItsBeginningIsMarked) {
  Json document = sentencepiece_json(), of_words = added(265, "b b", false);
  of_words["normalized"] = true;
  document["added_tokens"].push_back(of_words);
  const std::string text = "ab a</s>ab  b b\xc3\xa9 b b\xe2\x96\x81<s></s> aa b a</s>b";
  const std::string longer = "ab ab ab ab ab ab ab ab ab ab ab ab";
  const auto expect_early = [&](const std::string& what) {
    SCOPED_TRACE(what);
    const auto tokenizer = open(document, "</s>");
    expect_equal_ids_for_every_cut(*tokenizer, text);
    Ids ids;
    EXPECT_GT(tokenizer->encode_begin(longer, true, ids), longer.size() / 2);
  };
  expect_early("by normalizers");
  document["normalizer"]["normalizers"].erase(0);
  expect_early("no first mark");
  document["normalizer"] = nullptr;
  document["added_tokens"].erase(3);
  for (const char* scheme : {"never", "first", "always"}) {
    document["pre_tokenizer"] = metaspace(scheme);
    expect_early(scheme);
  }
}

TEST_F(JsonTokenizerTest, EncodesAnUnfinishedTextEarlyAlsoIfItIsNormalizedOrPrefixed) {
  const std::string text =
      "e\xcc\x81 ab ab<end>ab e\xcc\x81x e\xcc\x81\xcc\xa7 <end> \xc3\xa9"
      "1=\xcc\xb8 ab";
  for (const bool normalizes_to_nfc : {false, true})
    for (const bool prefixes : {false, true}) {
      Json document = byte_level_json();
      if (normalizes_to_nfc) document["normalizer"] = {{"type", "NFC"}};
      document["pre_tokenizer"]["add_prefix_space"] = prefixes;
      const auto tokenizer = open(document);
      SCOPED_TRACE(document["pre_tokenizer"].dump() + document["normalizer"].dump());
      expect_equal_ids_for_every_cut(*tokenizer, text);
      Ids ids;
      EXPECT_GT(tokenizer->encode_begin("ab e\xcc\x81 ab ab ab ab ab", true, ids), 10u);
    }
}

TEST_F(JsonTokenizerTest, AddsNoFirstMarkIfTheConfigOfALlamaSaysSo) {
  const int mark_a = 262, ab = 263;
  const auto ids_with = [&](const Json& config) {
    write("tokenizer_config.json", config.dump());
    return json_tokenizer(write("tokenizer.json", sentencepiece_json().dump()))->encode("ab a");
  };
  Json config{{"eos_token", "</s>"}, {"tokenizer_class", "LlamaTokenizer"}, {"add_prefix_space", false}};
  EXPECT_EQ(ids_with(config), (Ids{ab, mark_a}));
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  EXPECT_EQ(ids_with(config)[0], mark_a) << "in transformers, that class takes the file as it is";
}

TEST_F(JsonTokenizerTest, SpellsSpecialTokensOnlyAsPieces) {
  const auto tokenizer = open(byte_level_json());
  EXPECT_EQ(tokenizer->piece(259) + tokenizer->piece(258) + tokenizer->piece(1000), "<end> ab");
  EXPECT_EQ(tokenizer->decode({259}), "");
}

TEST_F(JsonTokenizerTest, PutsNothingBeforeATextThatBeginsWithIt) {
  const auto tokenizer = open(sentencepiece_json(), "</s>");
  EXPECT_EQ(tokenizer->missing_prefix_ids(tokenizer->encode("a")), Ids{1});
  EXPECT_EQ(tokenizer->missing_prefix_ids({}), Ids{1});
  EXPECT_EQ(tokenizer->missing_prefix_ids(tokenizer->encode("<s>a")), Ids{});
}

TEST_F(JsonTokenizerTest, AddsSentencePieceMarksWhereTheLibraryDoes) {
  const int mark = 259, a = 260, b = 261, mark_a = 262, ab = 263;
  Json document = sentencepiece_json();
  const auto by_normalizers = open(document, "</s>");
  EXPECT_EQ(by_normalizers->encode("ab a"), (Ids{mark_a, b, mark_a}));
  EXPECT_EQ(by_normalizers->encode(" a</s>ab"), (Ids{mark, mark_a, 2, mark_a, b})) << "before every piece";
  EXPECT_EQ(by_normalizers->prefix_ids(), Ids{1});
  EXPECT_EQ(by_normalizers->end_of_text(), 2);
  document["normalizer"] = nullptr;
  const std::vector<std::pair<std::string, std::vector<Ids>>> wanted{
      {"never", {{ab}, {mark_a, 2, ab}}},
      {"first", {{mark_a, b}, {mark_a, 2, ab}}},
      {"always", {{mark_a, b}, {mark_a, 2, mark_a, b}}},
  };
  for (const auto& [scheme, ids] : wanted) {
    document["pre_tokenizer"] = metaspace(scheme);
    const auto tokenizer = open(document, "</s>");
    EXPECT_EQ(tokenizer->encode("ab"), ids[0]) << scheme;
    EXPECT_EQ(tokenizer->encode(" a</s>ab"), ids[1]) << scheme << ": it begins with a space";
  }
  EXPECT_EQ(open(document, "</s>")
                ->encode("\xe2\x96\x81"
                         "a"),
            Ids{mark_a})
      << "it begins with a mark";
  document["pre_tokenizer"] = metaspace("never");
  EXPECT_EQ(open(document, "</s>")->encode("a"), Ids{a});
}

TEST_F(JsonTokenizerTest, FindsNormalizedTokensInNormalizedText) {
  const int mark = 259, a = 260, b = 261, mark_a = 262, pair = 265, tool = 266;
  Json document = sentencepiece_json(), of_words = added(pair, "a a", false), of_tools = added(tool, "<t>", false);
  of_words["normalized"] = of_tools["normalized"] = true;
  document["added_tokens"].push_back(of_words);
  document["added_tokens"].push_back(of_tools);
  const auto with_mark = open(document, "</s>");
  EXPECT_EQ(with_mark->encode("a a"), Ids{pair}) << "its content begins with a mark, too";
  EXPECT_EQ(with_mark->encode(" <t>a"), (Ids{mark, tool, a}));
  EXPECT_EQ(with_mark->encode("</s></s>"), (Ids{2, 2})) << "nothing is marked between them";
  EXPECT_EQ(with_mark->encode("a</s><t> b"), (Ids{mark_a, 2, tool, mark, b}));
  document["normalizer"]["normalizers"].erase(0);
  const auto without = open(document, "</s>");
  EXPECT_EQ(without->encode("ba ab<t>"), (Ids{b, pair, b, tool}));
  EXPECT_EQ(without->decode({pair, tool}), "a a<t>");
  Json composed = byte_level_json();
  composed["normalizer"] = {{"type", "NFC"}};
  composed["added_tokens"][1] = added(260, "e\xcc\x81", false);
  composed["added_tokens"][1]["normalized"] = true;
  EXPECT_EQ(open(composed)->encode("e\xcc\x81\xc3\xa9"), (Ids{260, 260}));
}

TEST_F(JsonTokenizerTest, EncodesAnAddedCharacterThatItDoesNotFindAsTheModelDoes) {
  const int b = 261, mark_a = 262;
  Json document = sentencepiece_json(), of_b = added(b, "b", false);
  of_b["normalized"] = true;
  document["added_tokens"].push_back(of_b);
  const auto tokenizer = open(document, "</s>");
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{mark_a, b})) << "the content begins with a mark, which this one lacks";
  EXPECT_EQ(tokenizer->encode("a b"), (Ids{mark_a, b}));
}

TEST_F(JsonTokenizerTest, LetsTokensTakeInWhiteSpace) {
  Json document = byte_level_json();
  document["pre_tokenizer"]["use_regex"] = false;
  const auto add = [&](int id, const char* content, bool left, bool right) {
    Json one = added(id, content, false);
    one["lstrip"] = left;
    one["rstrip"] = right;
    document["added_tokens"].push_back(one);
  };
  add(261, "<l>", true, false);
  add(262, "<r>", false, true);
  add(263, "\n\n", false, false);
  const auto tokenizer = open(document);
  EXPECT_EQ(tokenizer->encode("a \t<l> a"), (Ids{'a', 261, 256}));
  EXPECT_EQ(tokenizer->encode("a <r>\xe3\x80\x80\xc2\x85 a"), (Ids{'a', ' ', 262, 'a'}))
      << "all white space of Unicode";
  EXPECT_EQ(tokenizer->encode("\x1c\xe2\x80\x8b<l>"), (Ids{0x1c, 0xe2, 0x80, 0x8b, 261})) << "no white space";
  EXPECT_EQ(tokenizer->encode("<r> <l>"), (Ids{262, 261})) << "the first one takes it";
  EXPECT_EQ(tokenizer->encode("\n\n<l>"), (Ids{263, 261})) << "a token keeps its own";
  EXPECT_EQ(tokenizer->encode("<r>\n\n\nab"), (Ids{262, 263, '\n', 257}))
      << "as the library, which searches on directly behind a token";
  Ids ids;
  EXPECT_EQ(tokenizer->encode_begin("a <r> ", true, ids), 0u) << "white space may follow";
}

TEST_F(JsonTokenizerTest, ReadsSpecialTokensInATextAsTextIfTheConfigSplitsThem) {
  write("tokenizer_config.json", Json{{"eos_token", "<end>"}, {"split_special_tokens", true}}.dump());
  const auto tokenizer = json_tokenizer(write("tokenizer.json", byte_level_json().dump()));
  EXPECT_EQ(tokenizer->encode("<end><tool>"), (Ids{'<', 'e', 'n', 'd', '>', 260}));
  EXPECT_EQ(tokenizer->end_of_text(), 259);
  EXPECT_EQ(tokenizer->decode({259}), "");
}

TEST_F(JsonTokenizerTest, EncodesUnknownCharactersOfASentencePieceModelAsBytes) {
  const auto tokenizer = open(sentencepiece_json(), "</s>");
  EXPECT_EQ(tokenizer->encode("\n\xc3\xa9\xc3\xa8"), (Ids{259, 3 + '\n', 264, 3 + 0xc3, 3 + 0xa8}));
  EXPECT_EQ(tokenizer->decode({1, 259, 3 + '\n', 264, 3 + 0xc3, 3 + 0xa8, 2}), " \n\xc3\xa9\xc3\xa8");
}

TEST_F(JsonTokenizerTest, EmptyMatchesOfASplitCutTheText) {
  Json document = byte_level_json();
  document["model"]["merges"] = {"a b"};
  const auto ids = [&](const std::string& expression, const std::string& text) {
    document["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    return open(document)->encode(text);
  };
  EXPECT_EQ(ids("x", "ababab"), (Ids{257, 257, 257}));
  EXPECT_EQ(ids("(?=bab$)", "ababab"), (Ids{257, 'a', 'b', 257}));
  EXPECT_EQ(ids("(?=b)|(?<=b)", "abab"), (Ids{'a', 'b', 'a', 'b'}));
  EXPECT_EQ(ids("b*", "ab\xc3\xa9"), (Ids{'a', 'b', 0xc3, 0xa9})) << "an empty match after the last one cuts nothing";
  EXPECT_EQ(ids("", "ab"), (Ids{'a', 'b'}));
}

TEST_F(JsonTokenizerTest, ReadsATextWholeIfASplitLooksBack) {
  Json document = byte_level_json();
  document["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "(?<=a)b"}}}, {"behavior", "Isolated"}, {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  EXPECT_EQ(open(document)->encode("ab"), (Ids{'a', 'b'}));
  EXPECT_EQ(encoded_in_two_parts(*open(document), "abab", 3), (Ids{'a', 'b', 'a', 'b'}));
}

TEST_F(JsonTokenizerTest, RefusesAConfigThatContradictsTheFile) {
  const auto refused = [&](const Json& config, const Json& document = byte_level_json()) {
    Json whole = config;
    whole["eos_token"] = "<end>";
    const auto file = write("tokenizer.json", document.dump());
    write("tokenizer_config.json", whole.dump());
    try {
      json_tokenizer(file);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  Json token = added(260, "<tool>", false);
  token.erase("id");
  const auto decoder = [&](const std::string& id) { return Json{{"added_tokens_decoder", {{id, token}}}}; };
  EXPECT_EQ(refused(decoder("260")), "");
  EXPECT_TRUE(
      has(refused(decoder("261")), "its added_tokens_decoder has \"<tool>\" with the id 261, unlike tokenizer.json"));
  token["rstrip"] = true;
  EXPECT_TRUE(has(refused(decoder("260")), "other properties of \"<tool>\", unlike tokenizer.json"));
  token["rstrip"] = false;
  token["normalized"] = true;
  EXPECT_EQ(refused(decoder("260")), "") << "nothing is normalized";
  Json document = byte_level_json();
  document["normalizer"] = {{"type", "NFC"}};
  EXPECT_TRUE(has(refused(decoder("260"), document), "other properties of \"<tool>\""));
  for (const Json& config : {Json{{"pad_token", "<X>"}}, Json{{"additional_special_tokens", {"<end>", "<X>"}}},
                             Json{{"extra_special_tokens", {{"x_token", "<X>"}}}},
                             Json{{"model_specific_special_tokens", {{"x_token", "<X>"}}}}, Json{{"x_token", "<X>"}},
                             Json{{"bos_token", {{"content", "<X>"}, {"lstrip", false}}}}})
    EXPECT_TRUE(has(refused(config), "names the special token \"<X>\", unlike tokenizer.json")) << config;
  EXPECT_EQ(refused({{"pad_token", "<tool>"}, {"unk_token", nullptr}, {"add_bos_token", true}}), "");
  EXPECT_TRUE(has(refused({{"tokenizer_class", "GPT2Tokenizer"}, {"add_prefix_space", true}}),
                  "its tokenizer_class has another add_prefix_space"));
  EXPECT_EQ(refused({{"tokenizer_class", "GPT2Tokenizer"}}), "");
  EXPECT_EQ(refused({{"tokenizer_class", "PreTrainedTokenizerFast"}, {"add_prefix_space", true}}), "");
  EXPECT_TRUE(has(refused({{"added_tokens_decoder", {{"x", token}}}}), "added_tokens_decoder: wanted ids"));
}

TEST_F(JsonTokenizerTest, RefusesTokensThatTransformersReadsFromOlderFiles) {
  const auto file = write("tokenizer.json", byte_level_json().dump());
  const auto refused = [&](const Json& map, const Json& added, const Json& config = {{"eos_token", "<end>"}}) {
    write("tokenizer_config.json", config.dump());
    write("special_tokens_map.json", map.dump());
    write("added_tokens.json", added.dump());
    try {
      json_tokenizer(file);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Json none = Json::object(), pad{{"pad_token", {{"content", "<X>"}, {"lstrip", false}}}}, added{{"<X>", 261}};
  EXPECT_EQ(refused({{"eos_token", "<end>"}, {"pad_token", "<tool>"}}, {{"<tool>", 260}}), "");
  const std::string unlike = "names the special token \"<X>\", unlike tokenizer.json";
  for (const Json& map : {pad, Json{{"additional_special_tokens", {"<end>", "<X>"}}}})
    EXPECT_TRUE(has(refused(map, none), unlike)) << map;
  EXPECT_TRUE(has(refused(none, added), unlike));
  EXPECT_TRUE(has(refused({{"eos_token", "<tool>"}}, none),
                  "special_tokens_map.json: \"eos_token\" is \"<tool>\", but \"<end>\" in tokenizer_config.json"));
  EXPECT_EQ(refused(pad, added, {{"eos_token", "<end>"}, {"added_tokens_decoder", Json::object()}}), "")
      << "newer files are read instead";
}

TEST_F(JsonTokenizerTest, RefusesAFileWithoutAnEosToken) {
  EXPECT_TRUE(
      has(error_of(ExitStatus::data, [&] { open(byte_level_json(), "<none>"); }), "not one of the added tokens"));
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { open(byte_level_json(), ""); }), "names no eos_token"));
  const auto alone = write("alone/tokenizer.json", byte_level_json().dump());
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { json_tokenizer(alone); }), "must contain the eos_token"));
}

}  // namespace
}  // namespace wmtp
