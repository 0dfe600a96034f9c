#include "huggingface/params_file.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "experiment/model_config.hpp"
#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {
using Ids = std::vector<int64_t>;

/// Beside files without tensors.
SavedShape read_from(const std::string& params) {
  TestFolder folder;
  SafetensorsWriter(folder / "w.safetensors", {}, {}).finish();
  put(folder / "params.json", params);
  return read_params(folder.path(), SafetensorsFolder(folder.path()));
}

TEST(ParamsFile, OfMetaAndMistralMayHaveKeysThatChangeNothing) {
  const ModelConfig llama =
      read_from(R"({"dim": 2048, "ffn_dim_multiplier": 1.5, "multiple_of": 256, "n_heads": 32, "n_kv_heads": 8,
                    "n_layers": 16, "norm_eps": 1e-05, "rope_theta": 500000.0, "use_scaled_rope": false,
                    "vocab_size": 128256})")
          .model;
  EXPECT_EQ(llama.vocab_size, 128256);
  EXPECT_EQ(llama.rope_theta, 500000);
  const SavedShape mistral =
      read_from(R"({"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8,
                    "norm_eps": 1e-05, "sliding_window": 4096, "vocab_size": 32000, "max_batch_size": 1,
                    "max_position_embeddings": 32768, "model_type": "transformer", "activation": "silu",
                    "use_biases": false, "q_lora_rank": null})");
  EXPECT_EQ(mistral.model.sliding_window, 4096);
  EXPECT_TRUE(mistral.has_max_sequence_length);
  EXPECT_EQ(mistral.model.max_sequence_length, 32768);
}

TEST(ParamsFile, RefusesAllUnknownKeysAtOnce) {
  const std::string text = refusal(ExitStatus::data, [] {
    read_from(R"({"dim": 8, "n_layers": 1, "n_heads": 2, "rope_tetha": 500000, "yarn": {"factor": 4},
                  "llama_4_scaling": {}, "attn_logit_softcapping": 30.0, "model_type": "mamba"})");
  });
  EXPECT_SAYS(text, "rope_tetha is 500000; wanted no such key, which may change what is computed: is it rope_theta?\n");
  EXPECT_SAYS(text, "yarn is {\"factor\":4}; wanted no such key, which may change what is computed\n");
  EXPECT_SAYS(text, "llama_4_scaling is {}; wanted no such key");
  EXPECT_SAYS(text, "attn_logit_softcapping is 30.0; wanted no such key");
  EXPECT_SAYS(text, "model_type is \"mamba\"; wanted \"transformer\"");
  EXPECT_SAYS(text, "only the shape of a plain Llama is supported");
}

TEST(ParamsFile, ReadsEveryKeyThatIsWritten) {
  SavedShape saved;
  ModelConfig& model = saved.model;
  model.dim = 8;
  model.layers = 5;
  model.heads = model.kv_heads = 4;
  model.ffn_dim = 12;
  model.vocab_size = 20;
  model.future_offsets = {1, 3, 5, 7};
  model.max_sequence_length = 64;
  model.rope_scaling = RopeScaling{RopeType::llama3, 8, 1, 4, 8192};
  for_each_shape_option(model, [](const ShapeOption& option, auto& value) {
    if constexpr (std::is_same_v<decltype(value), bool&>)
      value = std::string(option.name) != "qk_norm";  // not with joint_qk_norm
    else
      value = 4;
  });
  saved.tokenizer = SavedTokenizer::byte;
  saved.bos_token_id = 1;
  saved.eos_token_id = {2, 3};
  saved.prompt_template = "plain";
  saved.value_heads = {{{"name", "v"}, {"kind", "mlp"}, {"meaning", "score"}}};
  const std::string text = params_text(saved);
  const SavedShape back = read_from(text);
  EXPECT_EQ(back.model, model);
  EXPECT_EQ(params_text(back), text);
}

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
