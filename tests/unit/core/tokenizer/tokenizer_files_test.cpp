#include "core/tokenizer/tokenizer_files.hpp"

#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

using TokenizerFiles = DataTest;

TEST_F(TokenizerFiles, NameTheTokensBeforeAndAfterAText) {
  const auto model = write("tokenizer.model", "pieces");
  EXPECT_FALSE(read_tokenizer_config(model)) << "as for one trained by this program";
  const auto config_of = [&](const std::string& config) {
    write("tokenizer_config.json", config);
    return *read_tokenizer_config(model);
  };
  EXPECT_TRUE(config_of(R"({"tokenizer_class": "LlamaTokenizer"})").add_bos_token) << "Llama's default";
  EXPECT_FALSE(config_of(R"({"add_bos_token": false})").add_bos_token);
  EXPECT_EQ(config_of(R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>"})").bos_token, "<s>");
  EXPECT_EQ(config_of(R"({"eos_token": "</s>", "bos_token": null})").eos_token, "</s>");
  EXPECT_FALSE(config_of(llama_tokenizer_config(false)).add_bos_token);
  EXPECT_TRUE(config_of(llama_tokenizer_config(true)).add_bos_token);
}

TEST_F(TokenizerFiles, AreRefusedIfTheConfigIsMalformed) {
  const auto model = write("tokenizer.model", "pieces");
  const auto message = [&](const std::string& config) {
    write("tokenizer_config.json", config);
    return error_of(ExitStatus::data, [&] { read_tokenizer_config(model); });
  };
  EXPECT_TRUE(has(message("{"), "tokenizer_config.json"));
  EXPECT_TRUE(has(message("[]"), "wanted an object"));
  EXPECT_TRUE(has(message(R"({"add_bos_token": "yes"})"), "add_bos_token is \"yes\", wanted true or false"));
  EXPECT_TRUE(has(message(R"({"add_eos_token": true})"), "add_eos_token is true, wanted false"));
}

TEST_F(TokenizerFiles, AreCopiedTogetherAndHashedTogether) {
  const auto model = write("from/llama.model", "pieces");
  const std::string alone = tokenizer_hash(model);
  write("from/tokenizer_config.json", "{}");
  const std::string both = tokenizer_hash(model);
  EXPECT_NE(alone, both) << "a BOS changes what is trained on";
  std::filesystem::create_directory(folder_ / "to");
  copy_tokenizer_files(model, folder_ / "to");
  EXPECT_EQ(read(folder_ / "to/tokenizer.model"), "pieces");
  EXPECT_EQ(read(folder_ / "to/tokenizer_config.json"), "{}");
  EXPECT_EQ(tokenizer_hash(tokenizer_file_in(folder_ / "to")), both);
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { copy_tokenizer_files(at("none.json"), folder_ / "to"); }),
                  "none.json does not exist"));
}

}  // namespace
}  // namespace wmtp
