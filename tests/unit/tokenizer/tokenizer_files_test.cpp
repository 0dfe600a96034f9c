#include "tokenizer/tokenizer_files.hpp"

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
  EXPECT_FALSE(config_of("{}").split_special_tokens);
  EXPECT_TRUE(config_of(R"({"split_special_tokens": true})").split_special_tokens);
  EXPECT_FALSE(config_of(R"({"tokenizer_class": "LlamaTokenizerFast", "add_prefix_space": false})").adds_prefix_space);
  EXPECT_TRUE(config_of(R"({"tokenizer_class": "LlamaTokenizer", "add_prefix_space": null})").adds_prefix_space);
  EXPECT_TRUE(config_of(R"({"add_prefix_space": false})").adds_prefix_space);
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
  write("from/chat_template.jinja", "{{ messages }}");
  const std::string all = tokenizer_hash(model);
  EXPECT_NE(both, all) << "a chat template too";
  std::filesystem::create_directory(folder_ / "to");
  copy_tokenizer_files(model, folder_ / "to");
  EXPECT_EQ(read(folder_ / "to/tokenizer.model"), "pieces");
  EXPECT_EQ(read(folder_ / "to/tokenizer_config.json"), "{}");
  EXPECT_EQ(tokenizer_hash(tokenizer_file_in(folder_ / "to")), all);
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { copy_tokenizer_files(at("none.json"), folder_ / "to"); }),
                  "none.json does not exist"));
}

TEST_F(TokenizerFiles, ContainAChatTemplateBesideOrInTheirConfig) {
  const auto file = write("tokenizer.json", "{}");
  EXPECT_EQ(read_chat_template(file), std::nullopt);
  write("tokenizer_config.json",
        R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null, "add_bos_token": true,
            "chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})");
  const auto found = read_chat_template(file);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "b");
  EXPECT_EQ(found->with_tools, "a");
  EXPECT_EQ(found->tokens, (std::map<std::string, std::string>{{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
  write("chat_template.jinja", "c");
  EXPECT_EQ(read_chat_template(file)->text, "c") << "as in transformers";
  EXPECT_EQ(read_chat_template(file)->with_tools, "");
  EXPECT_EQ(read_chat_template(file)->tool_use_file, "");
  write("additional_chat_templates/tool_use.jinja", "d");
  EXPECT_EQ(read_chat_template(file)->tool_use_file, at("additional_chat_templates/tool_use.jinja"));
  std::filesystem::remove(folder_ / "chat_template.jinja");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "a"}]})");
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { read_chat_template(file); }), "a list with one named \"default\""));
}

}  // namespace
TEST_F(TokenizerFiles, NameTheTokensThatATemplateWrites) {
  const auto file = write("tokenizer.json", "{}");
  write("tokenizer_config.json",
        R"({"chat_template": "{{ think_token }}", "extra_special_tokens": {"think_token": "<t>"}})");
  write("special_tokens_map.json", R"({"bos_token": "<s>"})");
  EXPECT_EQ(read_chat_template(file)->tokens, (std::map<std::string, std::string>{{"think_token", "<t>"}}))
      << "and no BOS, which the template does not write";
  write("tokenizer_config.json", R"({"chat_template": "{{ bos_token }}"})");
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { read_chat_template(file); }),
                  "\"bos_token\" is \"<s>\", which the chat template writes and tokenizer_config.json lacks"));
  write("tokenizer_config.json", R"({"chat_template": "{{ bos_token }}", "added_tokens_decoder": {}})");
  EXPECT_TRUE(read_chat_template(file)->tokens.empty()) << "as in transformers, which does not read the older file";
}

}  // namespace wmtp
