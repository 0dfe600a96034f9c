#include "huggingface/hf_config.hpp"

#include <cmath>

#include "huggingface/external_json.hpp"
#include "huggingface/params_file.hpp"
#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {

const Json llama_2{{"model_type", "llama"},
                   {"architectures", {"LlamaForCausalLM"}},
                   {"hidden_size", 4096},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 32},
                   {"intermediate_size", 11008},
                   {"vocab_size", 32000},
                   {"rms_norm_eps", 1e-5},
                   {"max_position_embeddings", 4096},
                   {"rope_scaling", nullptr},
                   {"pretraining_tp", 1},
                   {"transformers_version", "4.31.0"}};

ModelConfig read(const Json& config) {
  TestFolder folder;
  put(folder / "config.json", config.dump());
  return read_hf_config(folder.path());
}

std::string refused(Json changes) {
  Json config = llama_2;
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return refusal(ExitStatus::data, [&] { read(config); });
}

}  // namespace

TEST(HfConfig, ReadsConfigsOfLlama2And3AndOfNewerTransformers) {
  const ModelConfig model = read(llama_2);
  EXPECT_EQ(model.dim, 4096);
  EXPECT_EQ(model.kv_heads, 32) << "defaults to the number of heads";
  EXPECT_EQ(model.rope_theta, 10000.0) << "defaults to that of the first Llama";
  EXPECT_EQ(model.norm_eps, 1e-5);
  EXPECT_EQ(model.future_tokens, 1);
  EXPECT_EQ(model.max_sequence_length, 4096);
  Json llama_3 = llama_2;
  llama_3["num_key_value_heads"] = 8;
  llama_3["rope_theta"] = 500000.0;
  EXPECT_EQ(read(llama_3).rope_theta, 500000.0);
  EXPECT_EQ(read(llama_3).kv_heads, 8);
  Json newer = llama_2;
  newer["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 250000}};
  EXPECT_EQ(read(newer).rope_theta, 250000.0);
}

TEST(HfConfig, ReadsBackWhatItWrites) {
  ModelConfig model;
  model.dim = 64;
  model.layers = 6;
  model.heads = 4;
  model.kv_heads = 2;
  model.ffn_dim = 160;
  model.vocab_size = 512;
  model.future_tokens = 3;
  model.rope_theta = 5000.25;
  model.norm_eps = 1e-6;
  model.max_sequence_length = 96;
  const auto expect_back = [&] {
    ModelConfig back = read(hf_config_json(model, "BF16"));
    EXPECT_EQ(back.layers, 4) << "the trunk and head 1";
    back.layers = model.layers;
    back.future_tokens = model.future_tokens;
    EXPECT_EQ(back, model);
  };
  expect_back();
  model.rope_scaling = RopeScaling{RopeType::llama3, 8, 1, 4, 8192};
  model.tie_word_embeddings = true;
  expect_back();
  model.rope_scaling = RopeScaling{RopeType::yarn, 4, 0, 0, 8192, 1.25, 24, 0.5};
  expect_back();
  model.rope_scaling = RopeScaling{RopeType::linear, 2.5};
  model.qkv_bias = true;
  expect_back();
  model.o_bias = true;
  expect_back();
  model.qk_norm = true;
  model.head_dim = 32;
  expect_back();
  model.qkv_bias = model.o_bias = false;
  expect_back();
  model.qk_norm = false;
  model.sliding_window = 7;
  expect_back();
  model.sliding_window = 0;
  model.no_rope_layer_interval = 3;
  expect_back();
  model.no_rope_layer_interval = 0;
  model.post_norm = true;
  EXPECT_SAYS(refusal(ExitStatus::usage, [&] { hf_config_json(model, "BF16"); }), "no architecture of Hugging Face");
  model.joint_qk_norm = true;
  expect_back();
  model.post_norm = model.joint_qk_norm = false;
  model.embedding_multiplier = 12;
  model.attention_multiplier = 0.1;
  model.residual_multiplier = 0.22;
  model.logits_scaling = 8;
  expect_back();
  model.embedding_multiplier = model.attention_multiplier = model.residual_multiplier = 0;
  const ModelConfig back = read(hf_config_json(model, "BF16"));
  EXPECT_EQ(back.embedding_multiplier, 1);
  EXPECT_EQ(back.attention_multiplier, 1 / std::sqrt(double(head_dim(model)))) << "transformers' default is 1";
  EXPECT_EQ(back.residual_multiplier, 1);
  EXPECT_EQ(back.logits_scaling, 8);
  model.logits_scaling = 0;
  model.sliding_window = 7;
  const std::string combination = "no architecture of Hugging Face has this combination";
  model.qk_norm = true;
  EXPECT_SAYS(refusal(ExitStatus::usage, [&] { hf_config_json(model, "BF16"); }), combination);
  model.qk_norm = false;
  model.sliding_window = 0;
  model.o_bias = true;
  EXPECT_SAYS(refusal(ExitStatus::usage, [&] { hf_config_json(model, "BF16"); }), combination);
}

TEST(HfConfig, ReadsConfigsOfLlama31AndQwen2) {
  Json llama = llama_2;
  llama["rope_scaling"] = {{"factor", 8.0},
                           {"low_freq_factor", 1.0},
                           {"high_freq_factor", 4.0},
                           {"original_max_position_embeddings", 8192},
                           {"rope_type", "llama3"}};
  EXPECT_EQ(read(llama).rope_scaling, (RopeScaling{RopeType::llama3, 8, 1, 4, 8192}));
  const double usual = 0.1 * std::log(4.0) + 1;
  Json yarn{{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 8192}, {"truncate", true}};
  llama["rope_scaling"] = yarn;
  EXPECT_EQ(read(llama).rope_scaling, (RopeScaling{RopeType::yarn, 4, 0, 0, 8192, usual, 32, 1}));
  yarn["mscale"] = 2.0;
  llama["rope_scaling"] = yarn;
  EXPECT_EQ(read(llama).rope_scaling->attention_factor, usual) << "of the two keys one alone has no effect";
  yarn["mscale_all_dim"] = 1.0;
  llama["rope_scaling"] = yarn;
  EXPECT_DOUBLE_EQ(read(llama).rope_scaling->attention_factor, (0.2 * std::log(4.0) + 1) / usual);
  yarn["attention_factor"] = 1.5;
  yarn["beta_fast"] = nullptr;
  yarn["beta_slow"] = 2;
  llama["rope_scaling"] = yarn;
  EXPECT_EQ(read(llama).rope_scaling, (RopeScaling{RopeType::yarn, 4, 0, 0, 8192, 1.5, 32, 2}));
  llama["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  llama["tie_word_embeddings"] = true;
  EXPECT_EQ(read(llama).rope_scaling, (RopeScaling{RopeType::linear, 2}));
  EXPECT_TRUE(read(llama).tie_word_embeddings);
  Json qwen = llama_2;
  qwen["model_type"] = "qwen2";
  qwen["architectures"] = {"Qwen2ForCausalLM"};
  qwen["num_key_value_heads"] = 8;
  qwen["sliding_window"] = 32768;
  qwen["max_window_layers"] = 21;
  qwen["use_sliding_window"] = false;
  EXPECT_TRUE(read(qwen).qkv_bias);
  EXPECT_FALSE(read(qwen).o_bias);
  EXPECT_EQ(read(qwen).kv_heads, 8);
  qwen.erase("num_key_value_heads");
  qwen["use_sliding_window"] = true;
  const std::string text = refusal(ExitStatus::data, [&] { read(qwen); });
  EXPECT_SAYS(text, "num_key_value_heads is missing; wanted an integer");
  EXPECT_SAYS(text, "use_sliding_window is true; wanted false");
}

TEST(HfConfig, ReadsConfigsOfQwen3AndMistral) {
  Json qwen = llama_2;
  qwen["model_type"] = "qwen3";
  qwen["architectures"] = {"Qwen3ForCausalLM"};
  qwen["num_key_value_heads"] = 8;
  qwen["hidden_size"] = 1024;
  EXPECT_TRUE(read(qwen).qk_norm);
  EXPECT_EQ(read(qwen).head_dim, 128) << "transformers' default";
  qwen["head_dim"] = 32;
  EXPECT_EQ(read(qwen).head_dim, 0) << "the quotient";
  Json mistral = llama_2;
  mistral["model_type"] = "mistral";
  mistral["architectures"] = {"MistralForCausalLM"};
  mistral["num_key_value_heads"] = 8;
  EXPECT_EQ(read(mistral).sliding_window, 4096) << "transformers' default";
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(read(mistral).sliding_window, 0);
  mistral["sliding_window"] = 512;
  EXPECT_EQ(read(mistral).sliding_window, 512);
  mistral["layer_types"] = Json(32, "sliding_attention");
  EXPECT_EQ(read(mistral).sliding_window, 512);
  mistral["layer_types"] = Json(32, "full_attention");
  EXPECT_EQ(read(mistral).sliding_window, 0);
  mistral["layer_types"][7] = "sliding_attention";
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { read(mistral); }),
              "wanted a list of \"full_attention\" or of \"sliding_attention\" for each block");
  mistral["layer_types"] = Json(32, "sliding_attention");
  mistral["sliding_window"] = nullptr;
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { read(mistral); }), "sliding_window is null; wanted a number");
}

TEST(HfConfig, TheRopeThetaOfRopeScalingCounts) {
  Json config = llama_2;
  config["rope_theta"] = 1e4;
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2}, {"rope_theta", 5e5}};
  EXPECT_EQ(read(config).rope_theta, 5e5);
  config["rope_scaling"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  EXPECT_EQ(read(config).rope_theta, 5e5);
  config["rope_parameters"] = config["rope_scaling"];
  EXPECT_EQ(read(config).rope_theta, 5e5);
  config["rope_scaling"] = Json::object();
  config["rope_parameters"]["rope_theta"] = 2e5;
  EXPECT_EQ(read(config).rope_theta, 2e5) << "an empty rope_scaling replaces nothing";
}

TEST(HfConfig, ReadsTheWeightsThatTransformersReads) {
  TestFolder folder;
  put(folder / "model.safetensors.index.json", "{}");
  EXPECT_EQ(hf_files(folder.path()), folder.path());
  put(folder / "model.safetensors", "");
  EXPECT_EQ(hf_files(folder.path()), folder / "model.safetensors") << "not what an older index lists";
}

TEST(HfConfig, TheNamesOfTheTensorsDecideWhoseAFolderWithBothFilesIs) {
  TestFolder folder;
  const auto write = [&](const char* tensor) {
    std::filesystem::remove(folder / "model.safetensors");
    SafetensorsWriter(folder / "model.safetensors", {{tensor, "F32", {20, 0}}}, {}).finish();
  };
  put(folder / "params.json", "{}");
  write("model.embed_tokens.weight");
  EXPECT_FALSE(is_hf_folder(folder.path()));
  EXPECT_TRUE(is_params_folder(folder.path()));
  put(folder / "config.json", "{}");
  EXPECT_TRUE(is_hf_folder(folder.path()));
  EXPECT_FALSE(is_params_folder(folder.path()));
  write("tok_embeddings.weight");
  EXPECT_FALSE(is_hf_folder(folder.path()));
  EXPECT_TRUE(is_params_folder(folder.path()));
}

TEST(HfConfig, ReadsConfigsOfOlmo2) {
  Json olmo = llama_2;
  olmo["model_type"] = "olmo2";
  olmo["architectures"] = {"Olmo2ForCausalLM"};
  olmo.erase("rms_norm_eps");
  const ModelConfig model = read(olmo);
  EXPECT_TRUE(model.post_norm);
  EXPECT_TRUE(model.joint_qk_norm);
  EXPECT_FALSE(model.qk_norm);
  EXPECT_EQ(model.kv_heads, model.heads) << "transformers' default";
  EXPECT_EQ(model.norm_eps, 1e-5) << "transformers' default";
  olmo["model_type"] = "olmo3";
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { read(olmo); }), "\"smollm3\", \"olmo2\"");
}

TEST(HfConfig, ReadsConfigsOfGranite) {
  Json granite = llama_2;
  granite["model_type"] = "granite";
  granite["architectures"] = {"GraniteForCausalLM"};
  granite["embedding_multiplier"] = 12.0;
  granite["residual_multiplier"] = 0.22;
  const ModelConfig model = read(granite);
  EXPECT_EQ(model.embedding_multiplier, 12);
  EXPECT_EQ(model.residual_multiplier, 0.22);
  EXPECT_EQ(model.attention_multiplier, 1) << "transformers' default";
  EXPECT_EQ(model.logits_scaling, 1) << "transformers' default";
  granite["logits_scaling"] = 0;
  granite["mlp_bias"] = true;
  const std::string text = refusal(ExitStatus::data, [&] { read(granite); });
  EXPECT_SAYS(text, "logits_scaling is 0; wanted a number above 0");
  EXPECT_SAYS(text, "mlp_bias is true; wanted false");
}

TEST(HfConfig, ReadsConfigsOfSmolLM3) {
  Json smol = llama_2;
  smol["model_type"] = "smollm3";
  smol["architectures"] = {"SmolLM3ForCausalLM"};
  smol["num_key_value_heads"] = 8;
  smol["num_hidden_layers"] = 6;
  EXPECT_EQ(read(smol).no_rope_layer_interval, 4) << "transformers' default";
  EXPECT_EQ(read(smol).rope_theta, 2e6) << "transformers' default";
  EXPECT_TRUE(read(smol).tie_word_embeddings) << "transformers' default";
  smol["no_rope_layer_interval"] = 3;
  EXPECT_EQ(read(smol).no_rope_layer_interval, 3);
  smol["no_rope_layers"] = {1, 0, 1, 0, 1, 0};
  EXPECT_EQ(read(smol).no_rope_layer_interval, 2) << "the list counts";
  smol["no_rope_layers"] = {1, 1, 1, 1, 1, 1};
  EXPECT_EQ(read(smol).no_rope_layer_interval, 0);
  for (const Json& list : {Json{1, 0, 1, 1, 1, 0}, Json{1, 0, 1, 0}, Json{1, 1}, Json(3), Json{1, "0", 1, 0, 1, 0}}) {
    smol["no_rope_layers"] = list;
    EXPECT_SAYS(refusal(ExitStatus::data, [&] { read(smol); }), "wanted a list with a number for each block") << list;
  }
  smol["no_rope_layers"] = nullptr;
  smol["use_sliding_window"] = true;
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { read(smol); }), "use_sliding_window is true; wanted false");
}

TEST(HfConfig, NamesEveryUnsupportedKeyWithItsValue) {
  EXPECT_SAYS(refused({{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}),
              R"(rope_scaling is {"factor":2.0,"type":"dynamic"}; wanted positions that are not scaled, or scaled by)");
  EXPECT_SAYS(refused({{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}}), "a factor of at least 1");
  EXPECT_SAYS(refused({{"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"beta_fast", 1}}}}), "and nothing else");
  EXPECT_SAYS(refused({{"rope_scaling",
                        {{"rope_type", "llama3"},
                         {"factor", 8},
                         {"low_freq_factor", 4},
                         {"high_freq_factor", 1},
                         {"original_max_position_embeddings", 8192}}}}),
              "high_freq_factor (the larger one)");
  EXPECT_SAYS(refused({{"rope_scaling", "yarn"}}), "rope_scaling is \"yarn\"");
  const Json yarn{{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 8192}};
  EXPECT_SAYS(refused({{"rope_scaling", yarn}, {"original_max_position_embeddings", 4096}}),
              "original_max_position_embeddings is 4096; wanted the same as in rope_scaling");
  const Json wrong{{"truncate", false}, {"original_max_position_embeddings", nullptr},
                   {"factor", nullptr}, {"attention_factor", -1},
                   {"beta_fast", 1},    {"beta_slow", "1"},
                   {"finetuned", true}};
  for (const auto& [key, value] : wrong.items()) {
    Json changed = yarn;
    changed[key] = value;
    EXPECT_SAYS(refused({{"rope_scaling", changed}}), "wanted rope_type \"yarn\" with factor") << key;
  }
  EXPECT_SAYS(refused({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}},
                       {"rope_parameters", {{"rope_type", "linear"}, {"factor", 3}, {"rope_theta", 1e4}}}}),
              "wanted the same as in rope_scaling");
  for (const Json& other : {Json{{"rope_type", "default"}, {"rope_theta", 1e4}},
                            Json{{"rope_type", "linear"}, {"factor", 2}, {"rope_theta", 2e4}}})
    EXPECT_SAYS(refused({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}, {"rope_parameters", other}}),
                "wanted the same as in rope_scaling")
        << other;
  EXPECT_SAYS(refused({{"rope_scaling", {{"type", "default"}}},
                       {"rope_parameters", {{"rope_type", "linear"}, {"factor", 3}, {"rope_theta", 1e4}}}}),
              "wanted the same as in rope_scaling");
  EXPECT_SAYS(refused({{"is_causal", false}}), "is_causal is false; wanted true");
  EXPECT_SAYS(refused({{"layer_types", Json(31, "full_attention")}}),
              "wanted a list of \"full_attention\" for each block");
  EXPECT_SAYS(refused({{"layer_types", Json(32, "sliding_attention")}}), "layer_types is [");
  EXPECT_SAYS(refused({{"model_type", "gemma"}}), "wanted one of \"llama\", \"qwen2\", \"qwen3\", \"mistral\"");
  EXPECT_SAYS(refused({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", -1}}}}), "rope_parameters is ");
  EXPECT_SAYS(refused({{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}}),
              "rope_parameters is ");
  EXPECT_SAYS(refused({{"model_type", nullptr}}), "model_type is null; wanted one of \"llama\"");
  EXPECT_SAYS(refused({{"attention_bias", 1}}), "attention_bias is 1; wanted true or false");
  EXPECT_SAYS(refused({{"head_dim", 63}}), "heads of even width, found 63");
  EXPECT_SAYS(refused({{"sliding_window", 4096}}), "sliding_window is 4096; wanted");
  EXPECT_SAYS(refused({{"hidden_size", 4097}}), "wanted a divisor of the width 4097");
  EXPECT_SAYS(refused({{"hidden_size", -8}}), "hidden_size is -8; wanted an integer from 2 to 65536");
  EXPECT_SAYS(refused({{"hidden_size", 4096.0}}), "hidden_size is 4096.0");
  EXPECT_SAYS(refused({{"num_hidden_layers", uint64_t{1} << 63}}), "num_hidden_layers is 9223372036854775808");
  EXPECT_SAYS(refused({{"rms_norm_eps", 0}}), "rms_norm_eps is 0; wanted a number above 0");
  const std::string both = refused({{"mlp_bias", true}, {"tie_word_embeddings", 1}});
  EXPECT_SAYS(both, "\n  tie_word_embeddings is 1; wanted true or false");
  EXPECT_SAYS(both, "\n  mlp_bias is true; wanted false");
  EXPECT_EQ(refused({{"rope_scaling", {{"type", "default"}}}, {"mlp_bias", true}}).find("rope_scaling"),
            std::string::npos)
      << "type default means no scaling";
}

TEST(HfConfig, RefusesAFileThatIsNotAConfig) {
  TestFolder folder;
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { read_hf_config(folder.path()); }), "config.json does not exist");
  for (const char* text : {"", "[]", "3", "{\"a\":1,\"a\":2}", "{"}) {
    put(folder / "config.json", text);
    EXPECT_SAYS(refusal(ExitStatus::data, [&] { read_hf_config(folder.path()); }), "config.json") << text;
  }
  put(folder / "config.json", std::string(2 << 20, ' '));
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { read_hf_config(folder.path()); }), "at most 1048576 are read");
}

TEST(ParamsFile, ReadsMetaKeysAndInfersTheRestFromTheTensors) {
  TestFolder folder;
  SafetensorsWriter writer(
      folder / "w.safetensors",
      {{"tok_embeddings.weight", "F32", {20, 0}}, {"layers.0.feed_forward.w1.weight", "F32", {12, 0}}}, {});
  writer.finish();
  const auto read = [&](const Json& params) {
    put(folder / "params.json", params.dump());
    return read_params(folder.path(), SafetensorsFolder(folder.path()));
  };
  Json params{{"dim", 8}, {"n_layers", 4}, {"n_heads", 4}, {"vocab_size", -1}, {"multiple_of", 256}};
  const ModelConfig model = read(params).model;
  EXPECT_EQ(model.vocab_size, 20);
  EXPECT_EQ(model.ffn_dim, 12);
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.future_tokens, 1);
  params["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2}, {"rope_theta", 5e5}};
  EXPECT_EQ(read(params).model.rope_theta, 5e5);
  params.erase("rope_scaling");
  params["use_scaled_rope"] = true;
  params["n_future_tokens"] = 5;
  params["future_heads"] = "serial";
  params["value_heads"] = {{{"name", "v"}}};
  const std::string text = refusal(ExitStatus::data, [&] { read(params); });
  EXPECT_SAYS(text, "use_scaled_rope is true; wanted false");
  EXPECT_SAYS(text, "n_layers is 4; wanted one for each of the 5 future tokens");
  EXPECT_SAYS(text, "future_heads is \"serial\"; wanted \"parallel\", \"chained\" or \"shared\"");
  EXPECT_SAYS(text, "value_heads is [{\"name\":\"v\"}]");

  params["future_heads"] = "chained";
  params["value_heads"] = {{{"name", "v"}, {"kind", "mlp"}, {"meaning", "rank"}}};
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { read(params); }), "\"meaning\": \"value\" or \"score\"");
}

TEST(ParamsFile, HasAnOffsetForEachHeadOrNone) {
  TestFolder folder;
  SafetensorsWriter(folder / "w.safetensors", {}, {}).finish();
  const auto read = [&](const Json& params) {
    put(folder / "params.json", params.dump());
    return read_params(folder.path(), SafetensorsFolder(folder.path()));
  };
  SavedShape saved;
  ModelConfig& model = saved.model;
  model.dim = 8;
  model.layers = 5;
  model.heads = model.kv_heads = 4;
  EXPECT_EQ(params_text(saved).find("future_offsets"), std::string::npos);
  model.future_offsets = {1, 3, 5, 256};
  const Json written = Json::parse(params_text(saved));
  EXPECT_EQ(read(written).model.future_offsets, model.future_offsets);
  for (const char* bad : {"[1, 3, 5]", "[1, 3, 5, 7, 9]", "[0, 1, 2, 3]", "[2, 3, 4, 5]", "[1, 3, 3, 5]",
                          "[1, 5, 3, 7]", "[1, 3, 5, 257]", "[1, 3, 5, 18446744073709551615]", "[1, 3, 5, 7.0]",
                          "[1, -3, 5, 7]", "[1, \"3\", 5, 7]", "[1, [3], 5, 7]", "{\"1\": 1}", "\"1357\"", "4", "[]"}) {
    Json params = written;
    params["future_offsets"] = Json::parse(bad, nullptr, false);
    EXPECT_SAYS(refusal(ExitStatus::data, [&] { read(params); }),
                "wanted rising integers from 1 to at most 256, one for each of the 4 heads");
  }
  Json chained = written;
  chained["future_heads"] = "chained";
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { read(chained); }),
              "future_offsets is [1,3,5,256]; wanted no such key for chained heads");
}

TEST(HfConfig, SaysThatDropoutIsNotApplied) {
  const auto differences = [](const Json& changes) {
    Json config = llama_2;
    config.update(changes);
    TestFolder folder;
    put(folder / "config.json", config.dump());
    return dropout_differences(folder.path());
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(differences({{"attention_dropout", 0.1}}),
            Texts{"attention_dropout is 0.1 there and 0 here: nothing is dropped from this model's activations"});
  for (const auto* key : {"hidden_dropout", "hidden_dropout_prob", "resid_pdrop", "embd_pdrop", "attn_pdrop",
                          "layerdrop", "embedding_dropout", "activation_dropout", "residual_dropout_prob"})
    EXPECT_EQ(differences({{key, 0.5}}).size(), 1u) << key;
  EXPECT_EQ(differences({{"attention_dropout", 0.0}, {"hidden_dropout", 0}, {"resid_pdrop", nullptr}}), Texts{});
  EXPECT_EQ(differences({{"classifier_dropout", 0.1}, {"summary_first_dropout", 0.1}}), Texts{}) << "other heads";
}

TEST(HfConfig, SaysThatCodeOfModelsIsNotRead) {
  const auto differences = [](const Json& names) {
    Json config = llama_2;
    config["auto_map"] = names;
    TestFolder folder;
    put(folder / "config.json", config.dump());
    return code_differences(folder.path());
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(differences({{"AutoModelForCausalLM", "modeling_x.Model"}}),
            Texts{"auto_map names \"modeling_x.py\", which is not read: computed as a plain Llama"});
  EXPECT_EQ(differences({{"AutoModelForCausalLM", "modeling_x.Model"}, {"AutoModel", "o/n.m--modeling_y.Base"}}),
            Texts{"auto_map names \"modeling_x.py\" and \"modeling_y.py\", which are not read: computed as a plain "
                  "Llama"});
  EXPECT_EQ(differences({{"AutoModelForCausalLM", "modeling_wmtp.MultiTokenForCausalLM"}}), Texts{}) << "our export";
  EXPECT_EQ(differences({{"AutoConfig", "configuration_x.Config"}, {"AutoTokenizer", {"tokenization_x.T", nullptr}}}),
            Texts{});
  EXPECT_EQ(differences(nullptr), Texts{});
}

}  // namespace wmtp::test
