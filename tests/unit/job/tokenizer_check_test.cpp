// Which tokenizer weights and data have. What differs between two: tokenizer/vocabulary_difference_test.cpp.
#include "job/tokenizer_check.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.hpp"
#include "checkpoint/safetensors/safetensors.hpp"
#include "huggingface/params_file.hpp"
#include "support/made_tokenizer.hpp"
#include "support/temporary_folder.hpp"
#include "tokenizer/tokenizer_export.hpp"

namespace wmtp {
namespace {

class TokenizerCheckTest : public testing::Test {
 protected:
  TokenizerCheckTest() {
    experiment_.file = folder() / "a.toml";
    std::filesystem::create_directories(model());
    std::filesystem::create_directories(prepared());
    SafetensorsWriter writer(file(), {{"norm.weight", "F32", {1}}}, {});
    const float one = 1;
    writer.write("norm.weight", 0, &one, sizeof one);
    writer.finish();
    experiment_.data.tokenizer.given = true;
    set_data(TokenizerKind::byte);
  }
  const std::filesystem::path& folder() const { return folder_.path(); }
  std::filesystem::path model() const { return folder() / "model"; }
  std::filesystem::path file() const { return model() / "model.safetensors"; }
  std::filesystem::path prepared() const { return folder() / "prepared"; }

  void write(const std::filesystem::path& path, const std::string& text) const {
    std::filesystem::remove(path);
    std::ofstream(path) << text;
  }
  void state(SavedTokenizer tokenizer) const {
    SavedShape saved;
    saved.model.dim = saved.model.heads = saved.model.kv_heads = 2;
    saved.model.dim = 4;
    saved.model.layers = saved.model.future_tokens = 1;
    saved.tokenizer = tokenizer;
    write(model() / params_file_name, params_text(saved));
  }
  void set_data(TokenizerKind kind) { experiment_.data.tokenizer.kind = kind; }
  std::string difference(const std::filesystem::path& weights, const std::filesystem::path& prepared = {}) const {
    return tokenizer_difference(weights, experiment_, prepared);
  }

  test::TemporaryFolder folder_;
  Experiment experiment_;
};

TEST_F(TokenizerCheckTest, ComparesFilesOfAFolderAndOfTheFolderAroundAFile) {
  write(model() / "tokenizer.json", byte_level_json().dump());
  EXPECT_EQ(difference(file()), "") << "a folder without a shape states nothing of a file";
  state(SavedTokenizer::tokenizer_json);
  const std::string found =
      "its tokenizer " + (model() / "tokenizer.json").string() + " is not the data's, \"byte\": id 256 is ";
  EXPECT_EQ(difference(model()).rfind(found, 0), 0u) << difference(model());
  EXPECT_EQ(difference(file()), difference(model()));
  EXPECT_TRUE(difference(file()).ends_with("; set [data.tokenizer] to kind = \"file\" and file = \"" +
                                           (model() / "tokenizer.json").string() +
                                           "\", or choose weights that were trained with the data's tokenizer"))
      << difference(file());
  experiment_.data.tokenizer.file = "model/tokenizer.json";
  set_data(TokenizerKind::file);
  EXPECT_EQ(difference(file()), "");
  experiment_.data.tokenizer.given = false;
  set_data(TokenizerKind::byte);
  EXPECT_EQ(difference(file()), "") << "token files without a tokenizer";
}

TEST_F(TokenizerCheckTest, KnowsTheBytesOfParamsJsonAndNothingOfModelsWithoutATokenizer) {
  state(SavedTokenizer::none);
  EXPECT_EQ(difference(model()), "");
  state(SavedTokenizer::byte);
  EXPECT_EQ(difference(model()), "");
  write(folder() / "other.json", sentencepiece_json().dump());
  experiment_.data.tokenizer.file = "other.json";
  set_data(TokenizerKind::file);
  EXPECT_NE(difference(model()).find("its tokenizer \"byte\" is not the data's, " + (folder() / "other.json").string()),
            std::string::npos)
      << difference(model());
  EXPECT_THROW(check_frozen_tokenizer("reference", model(), experiment_, {}), Error);
}

TEST_F(TokenizerCheckTest, ComparesATokenizerThatTheRunTrainsWhenItIsPrepared) {
  state(SavedTokenizer::bpe);
  write(model() / "tokenizer.model",
        "\n\x05\n\x01"
        "a\x18\x01");
  write(prepared() / "tokenizer.model",
        "\n\x05\n\x01"
        "b\x18\x01");
  set_data(TokenizerKind::bpe);
  EXPECT_EQ(difference(model()), "");
  EXPECT_NE(difference(model(), prepared()).find("id 0 is \"a\" there and \"b\" here"), std::string::npos)
      << difference(model(), prepared());
  write(model() / "tokenizer.json", byte_tokenizer_json().dump());
  write(prepared() / "tokenizer.model",
        "\n\x05\n\x01"
        "a\x18\x01");
  EXPECT_EQ(difference(model(), prepared()), "") << "of two files, that of the data's kind";
}

}  // namespace
}  // namespace wmtp
