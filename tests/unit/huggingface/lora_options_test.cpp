#include "huggingface/lora_options.hpp"

#include "checkpoint/adapter_identity.hpp"
#include "huggingface/external_json.hpp"
#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {

LoraOptions some_options() {
  LoraOptions lora;
  lora.rank = 4;
  lora.alpha = 6;
  lora.dropout = 0.25;
  lora.rslora = lora.dora = true;
  lora.plus_ratio = 2;
  lora.targets = {"w1", "layers.*.wq"};
  return lora;
}

}  // namespace

TEST(LoraOptions, RoundTripsThroughAPeftConfig) {
  TestFolder folder;
  const PeftModules modules{{{"gate_proj", "model.layers.1.self_attn.q_proj"}}, {}, {"lm_head"}};
  const Json config = peft_config_json(some_options(), modules, "/models/base");
  EXPECT_EQ(config["lora_alpha"].dump(), "6");
  EXPECT_EQ(config["base_model_name_or_path"], "/models/base");
  EXPECT_TRUE(peft_config_json(some_options(), modules, "")["base_model_name_or_path"].is_null());
  put(folder / "adapter_config.json", config.dump());
  PeftConfig back = read_peft_config(folder.path());
  EXPECT_EQ(back.modules.targets, modules.targets);
  EXPECT_EQ(back.modules.saved, modules.saved);
  EXPECT_EQ(back.lora.plus_ratio, 1.0) << "PEFT has no key for it";
  EXPECT_EQ(back.base.name, "/models/base");
  EXPECT_EQ(back.base.revision, "");
  back.lora.plus_ratio = 2;
  back.lora.targets = some_options().targets;
  EXPECT_EQ(option_values(back.lora), option_values(some_options()));
}

TEST(LoraOptions, NameModulesByPeftsRules) {
  const PeftModules modules{{{"self_attn.q_proj", "model.layers.7.mlp.up_proj"}}, {{0, 2}}, {"norm", "layers.1.mlp"}};
  EXPECT_TRUE(modules.are_targets("model.layers.2.self_attn.q_proj", 2));
  EXPECT_FALSE(modules.are_targets("model.layers.1.self_attn.q_proj", 1)) << "not in layers_to_transform";
  EXPECT_TRUE(modules.are_targets("model.layers.7.mlp.up_proj", 7)) << "a whole name ignores layers_to_transform";
  EXPECT_FALSE(modules.are_targets("model.layers.0.mlp.up_proj", 0));
  EXPECT_TRUE(modules.are_saved("model.norm.weight"));
  EXPECT_TRUE(modules.are_saved("model.layers.0.input_layernorm.weight")) << "ends with norm";
  EXPECT_TRUE(modules.are_saved("model.layers.1.mlp.up_proj.weight")) << "in a saved module";
  EXPECT_FALSE(modules.are_saved("model.layers.2.mlp.up_proj.weight"));
}

TEST(LoraOptions, NoNamedLayerIsEveryLayerAsInPeft) {
  TestFolder folder;
  Json config = peft_config_json(some_options(), {{{"q_proj"}}, {}, {}}, "");
  config["layers_to_transform"] = Json::array();
  put(folder / "adapter_config.json", config.dump());
  EXPECT_FALSE(read_peft_config(folder.path()).modules.layers.has_value());
}

TEST(LoraOptions, RefuseAPeftConfigThatNamesOtherThings) {
  TestFolder folder;
  const auto refused = [&](const char* key, const Json& value) {
    Json config = peft_config_json(some_options(), {{{"q_proj"}}, {}, {}}, "");
    config[key] = value;
    put(folder / "adapter_config.json", config.dump());
    return refusal(ExitStatus::data, [&] { read_peft_config(folder.path()); });
  };
  EXPECT_SAYS(refused("target_modules", {"q_proj", "lm_head"}), "target_modules is [\"q_proj\",\"lm_head\"]; wanted");
  EXPECT_SAYS(refused("modules_to_save", "norm"), "modules_to_save is \"norm\"; wanted names of modules");
  EXPECT_SAYS(refused("layers_to_transform", "0"), "layers_to_transform is \"0\"; wanted numbers of layers");
  EXPECT_SAYS(refused("exclude_modules", {"q_proj"}), "exclude_modules is [\"q_proj\"]");
}

TEST(LoraOptions, RefusesAnUnknownOption) {
  TestFolder folder;
  Json identity = identity_json({"lora", "1.0", option_values(some_options())}, "00ff");
  const auto read = [&] {
    put(folder / "adapter.json", identity.dump());
    return read_saved_lora(folder.path());
  };
  EXPECT_EQ(option_values(read().options), option_values(some_options()));
  EXPECT_EQ(read().base_fingerprint, "00ff");
  EXPECT_EQ(read().base_path, "");
  identity["base_path"] = "/models/base";
  EXPECT_EQ(read().base_path, "/models/base");
  identity["options"]["trick"] = 1;
  EXPECT_SAYS(refusal(ExitStatus::data, read), "trick is 1; wanted no such key");
  identity["options"].erase("trick");
  identity["options"]["targets"] = "wq";
  EXPECT_SAYS(refusal(ExitStatus::data, read), "targets is \"wq\"; wanted a list of linear layers");
  identity["plugin"] = "prefix";
  EXPECT_SAYS(refusal(ExitStatus::data, read), "plugin is \"prefix\"; wanted \"lora\"");
}

TEST(LoraOptions, OnlyBAndTheMagnitudeHaveTheRowsOfTheWeight) {
  const BlockLayer shape{linear_layers[0], 8, 6, 2};
  const std::vector<LoraPart> parts = lora_parts(some_options(), shape);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].shape, (std::vector<int64_t>{4, 6}));
  EXPECT_FALSE(parts[0].has_rows_of_weight);
  EXPECT_TRUE(parts[1].has_rows_of_weight);
  EXPECT_EQ(parts[2].shape, (std::vector<int64_t>{1, 8}));
  EXPECT_EQ(parts[2].peft_shape, (std::vector<int64_t>{8}));
  EXPECT_TRUE(parts[2].has_rows_of_weight);
}

}  // namespace wmtp::test
