#include "tokenizer/torch/tokenizers.hpp"

#include <fcntl.h>
#include <sentencepiece_processor.h>
#include <unistd.h>

#include <random>

#include "data/tokens/file_patterns.hpp"
#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// Code-like text with many different words.
std::string sample_code(int functions) {
  std::string text;
  for (int i = 0; i < functions; ++i) {
    const std::string name = "function" + std::string(1, char('a' + i % 26)) + std::string(1, char('a' + i / 26 % 26));
    text += "def " + name + "(value, other):\n    \"\"\"Return the " + name + " of value.\"\"\"\n    if value:\n" +
            "        return other[" + std::to_string(i) + "]\n    return " + name + "(other, value)\n\n\n";
  }
  return text;
}

class Bpe : public DataTest {
 protected:
  std::unique_ptr<Tokenizer> trained(const std::vector<fs::path>& files, int64_t vocab_size) const {
    train_bpe(whole_files(files), vocab_size, folder_ / "tokenizer.model");
    return sentencepiece_tokenizer(folder_ / "tokenizer.model");
  }
};

TEST(ByteTokenizer, EncodesTheBytesOfAText) {
  const auto tokenizer = byte_tokenizer();
  EXPECT_EQ(tokenizer->vocab_size(), 258);
  EXPECT_EQ(tokenizer->end_of_text(), 257);
  const std::string text("a\0\xff\n", 4);
  EXPECT_EQ(tokenizer->encode(text), (std::vector<int32_t>{'a', 0, 255, '\n'}));
  EXPECT_EQ(tokenizer->decode({256, 'a', 0, 255, '\n', 257}), text);
}

TEST_F(Bpe, HasTheRequestedNumberOfPieces) {
  const auto tokenizer = trained({write("a.py", sample_code(100))}, 500);
  EXPECT_EQ(tokenizer->vocab_size(), 500);
  EXPECT_GE(tokenizer->end_of_text(), 0);
  EXPECT_LT(tokenizer->end_of_text(), 500);
  EXPECT_EQ(tokenizer->decode({int32_t(tokenizer->end_of_text())}), "");
}

TEST_F(Bpe, EncodesWordByWordAsSentencePieceEncodesTheWholeText) {
  const auto tokenizer = trained({write("a.py", sample_code(100))}, 500);
  sentencepiece::SentencePieceProcessor whole;
  ASSERT_TRUE(whole.Load((folder_ / "tokenizer.model").string()).ok());
  std::mt19937 random(1);
  const std::vector<std::string> parts{"def ", "function", "value", "  ", "\n        ", "\n",
                                       "\t",   "(",        "):",    "_",  "é",          "\xe6\x97\xa5",
                                       "12",   "x",        "other", " ",  "Q",          "Return the "};
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int j = 0; j < 40; ++j) text += parts[random() % parts.size()];
    std::vector<int> ids;
    ASSERT_TRUE(whole.Encode(text, &ids).ok());
    EXPECT_EQ(tokenizer->encode(text), ids) << text;
  }
}

TEST_F(Bpe, WithASpaceBeforeTextsEncodesPartsAsSentencePieceEncodesTheWhole) {
  trained({write("a.py", sample_code(100))}, 500);
  const std::string add_dummy_prefix("\x1a\x02\x18\x01", 4);  // as Llama's: the last value of a field counts
  const auto file = write("prefix.model", read(folder_ / "tokenizer.model") + add_dummy_prefix);
  const auto tokenizer = sentencepiece_tokenizer(file);
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(file.string()).ok());
  std::mt19937 random(1);
  const std::vector<std::string> parts{"def ",       "function", "value",        "  ",    "\n        ",
                                       "\n",         "(",        "):",           "é",     "\xe6\x97\xa5",
                                       "12",         "x",        "\xe2\x96\x81", "other", " ",
                                       "Return the "};
  size_t early = 0;
  for (int i = 0; i < 60; ++i) {
    std::string text;
    for (int j = 0; j < 12; ++j) text += parts[random() % parts.size()];
    std::vector<int> whole;
    ASSERT_TRUE(library.Encode(text, &whole).ok());
    EXPECT_EQ(tokenizer->encode(text), whole) << text;
    for (size_t cut = 0; cut <= text.size(); ++cut) {  // also within a character
      std::vector<int32_t> ids, rest;
      const size_t taken = tokenizer->encode_begin(std::string_view(text).substr(0, cut), true, ids);
      early += taken;
      tokenizer->encode_begin(std::string_view(text).substr(taken), false, rest, ids.empty() ? -1 : ids.back());
      ids.insert(ids.end(), rest.begin(), rest.end());
      ASSERT_EQ(ids, whole) << text << " cut at " << cut;
    }
  }
  EXPECT_GT(early, 0u);
}

TEST_F(Bpe, DecodesEveryTextExactly) {
  const auto tokenizer = trained({write("a.py", sample_code(100))}, 500);
  const std::vector<std::string> texts{"",
                                       " ",
                                       "\n",
                                       "\t\tx\n",
                                       "  leading and trailing  ",
                                       "runs   of      spaces",
                                       "\r\n windows \r\n",
                                       "\n\n\n\n",
                                       "\n         nine\n                                    many",
                                       "caf\u00e9 \u65e5\u672c\u8a9e \U0001f600",
                                       "\u2581 is no space, \u2581\u2581",
                                       "\u2585 and <unk> <s> </s> <0x0A> <0xE2>",
                                       std::string("nul \0 in it", 11),
                                       "\u00a0\u2003\ufeff wide spaces",
                                       "e\u0301 \ufb01 not normalised",
                                       std::string(20000, 'x')};
  for (const auto& text : texts) EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST_F(Bpe, EncodesPartsSplitBeforeAnyNewlineTheSame) {
  const auto tokenizer = trained({write("a.py", sample_code(100))}, 500);
  const std::string text = sample_code(30);
  const auto whole = tokenizer->encode(text);
  for (size_t newline = text.find('\n'); newline != std::string::npos; newline = text.find('\n', newline + 1)) {
    auto parts = tokenizer->encode(text.substr(0, newline));
    const auto rest = tokenizer->encode(text.substr(newline));
    parts.insert(parts.end(), rest.begin(), rest.end());
    ASSERT_EQ(parts, whole) << newline;
  }
}

TEST_F(Bpe, NeverEncodesTextAsControlPieces) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "</s> <s> <unk> </s>\n";
  const auto tokenizer = trained({write("a.py", sample_code(100)), write("b.txt", text)}, 450);
  for (int32_t id : tokenizer->encode(text)) ASSERT_NE(id, tokenizer->end_of_text());
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST_F(Bpe, SplitsDigits) {
  const auto tokenizer = trained({write("a.py", sample_code(400))}, 600);
  EXPECT_EQ(tokenizer->encode("1234567").size(), 7u);
}

TEST_F(Bpe, IsDeterministicAndIndependentOfTheFilesLocation) {
  const auto code = sample_code(100);
  const std::vector<fs::path> files{write("a.py", code), write("b.py", sample_code(50))};
  train_bpe(whole_files(files), 500, folder_ / "one.model");
  train_bpe(whole_files({write("z/b.py", read(files[0])), write("z/a.py", read(files[1]))}), 500,
            folder_ / "two.model");
  EXPECT_EQ(read(folder_ / "one.model"), read(folder_ / "two.model"));
}

TEST_F(Bpe, NamesTheLargestVocabularyThatFits) {
  const std::vector<fs::path> files{write("a.py", sample_code(20))};
  const auto text = error_of(ExitStatus::data, [&] { trained(files, 4096); });
  const std::string before = "contain no more than ";
  ASSERT_TRUE(has(text, before)) << text;
  const int64_t largest = std::stoll(text.substr(text.find(before) + before.size()));
  EXPECT_FALSE(fs::exists(folder_ / "tokenizer.model"));
  EXPECT_EQ(trained(files, largest)->vocab_size(), largest);
  error_of(ExitStatus::data, [&] { trained(files, largest + 1); });
}

TEST_F(Bpe, RefusesAVocabularyWithoutRoomForBytes) {
  const std::vector<fs::path> files{write("a.py", sample_code(20))};
  const auto text = error_of(ExitStatus::data, [&] { trained(files, 100); });
  const std::string before = "need at least ";
  ASSERT_TRUE(has(text, "100 pieces") && has(text, before)) << text;
  const int64_t fewest = std::stoll(text.substr(text.find(before) + before.size()));
  EXPECT_EQ(trained(files, fewest)->vocab_size(), fewest);
  error_of(ExitStatus::data, [&] { trained(files, fewest - 1); });
}

TEST_F(Bpe, RefusesTextThatIsEmpty) {
  const auto text = error_of(ExitStatus::data, [&] { trained({write("a.py", ""), write("b.py", "\n\n")}, 300); });
  EXPECT_TRUE(has(text, "no text") && has(text, "2 files")) << text;
}

TEST_F(Bpe, SkipsFilesThatAreNotUtf8) {
  const auto good = write("a.py", sample_code(100)), bad = write("b.py", "\xff\xfe" + sample_code(200));
  train_bpe(whole_files({good}), 500, folder_ / "one.model");
  train_bpe(whole_files({good, bad}), 500, folder_ / "two.model");
  EXPECT_EQ(read(folder_ / "one.model"), read(folder_ / "two.model"));
}

TEST_F(Bpe, LearnsFromLinesOfAnyLength) {
  std::string line;
  for (int i = 0; i < 5000; ++i) line += "extraordinary ";
  const auto tokenizer = trained({write("a.txt", line)}, 290);
  EXPECT_LE(tokenizer->encode(" extraordinary").size(), 2u);
}

TEST_F(Bpe, RefusesAFileThatIsNotAModel) {
  const auto file = write("tokenizer.model", "not a model at all");
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { sentencepiece_tokenizer(file); }), "tokenizer.model is not"));
  error_of(ExitStatus::data, [&] { sentencepiece_tokenizer(write("empty.model", "")); });
  error_of(ExitStatus::data, [&] { sentencepiece_tokenizer(at("none.model")); });
}

TEST_F(Bpe, BeginsATextWithBosIfATokenizerConfigInTheFolderSaysSo) {
  const fs::path file = folder_ / "tokenizer.model";
  EXPECT_TRUE(trained({write("a.py", sample_code(100))}, 500)->prefix_ids().empty()) << "no text began with it";
  const auto before = [&](const std::string& config) {
    write("tokenizer_config.json", config);
    return sentencepiece_tokenizer(file)->prefix_ids();
  };
  EXPECT_EQ(before("{}"), std::vector<int32_t>{1});
  EXPECT_EQ(before(R"({"add_bos_token": true, "bos_token": "</s>"})"), std::vector<int32_t>{2});
  EXPECT_TRUE(before(R"({"add_bos_token": false})").empty());
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { before(R"({"bos_token": "<begin>"})"); }), "has no piece <begin>"));
}

TEST_F(Bpe, WarnsOnceOfATextWithAControlPieceThatTransformersWouldRead) {
  trained({write("a.py", sample_code(100))}, 500);
  const auto printed = [&](const std::string& config, const std::string& text) {
    write("tokenizer_config.json", config);
    const auto tokenizer = sentencepiece_tokenizer(folder_ / "tokenizer.model");
    testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) tokenizer->encode(text);
    return testing::internal::GetCapturedStderr();
  };
  const std::string once = printed("{}", "x = 1</s>"), warning = "a text contains </s>, which becomes the tokens of";
  EXPECT_TRUE(has(once, warning)) << once;
  EXPECT_EQ(once.find(warning), once.rfind(warning));
  EXPECT_EQ(printed("{}", "x = 1 < s >"), "");
  EXPECT_EQ(printed(R"({"split_special_tokens": true})", "x = 1</s>"), "");
}

TEST_F(Bpe, PrintsNothing) {
  const auto file = write("a.py", sample_code(100));
  const int kept = dup(STDERR_FILENO), log = open(at("log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(log, STDERR_FILENO);
  try {
    trained({file}, 500);
    sentencepiece_tokenizer(write("bad.model", "not a model at all"));
  } catch (const Error&) {
  }
  dup2(kept, STDERR_FILENO);
  close(kept);
  close(log);
  EXPECT_EQ(read(at("log")), "");
}

TEST_F(Bpe, DecodesTheStandardLibraryExactly) {
  const std::string library = "/usr/lib/python3.11/";
  if (!fs::exists(library + "asyncio")) GTEST_SKIP() << "no Python 3.11 here";
  const auto files = list_files({library + "asyncio/*.py", library + "*.py", library + "encodings/*.py"}, {});
  const auto tokenizer = trained(list_files({library + "asyncio/*.py"}, {}), 2000);
  ASSERT_GT(files.size(), 200u);
  size_t bytes = 0, ids = 0;
  for (const auto& file : files) {
    const auto text = read(file);
    const auto encoded = tokenizer->encode(text);
    ASSERT_EQ(tokenizer->decode(encoded), text) << file;
    bytes += text.size();
    ids += encoded.size();
  }
  EXPECT_GT(double(bytes) / double(ids), 2.0);
}

}  // namespace
}  // namespace wmtp
