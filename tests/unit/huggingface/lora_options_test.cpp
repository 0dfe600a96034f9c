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
  lora.targets = {linear_layers[4], linear_layers[0]};
  return lora;
}

}  // namespace

TEST(LoraOptions, RoundTripsThroughAPeftConfig) {
  TestFolder folder;
  const Json config = peft_config_json(some_options(), "/models/base");
  EXPECT_EQ(config["target_modules"], Json({"gate_proj", "q_proj"}));
  EXPECT_EQ(config["lora_alpha"].dump(), "6");
  EXPECT_EQ(config["base_model_name_or_path"], "/models/base");
  EXPECT_TRUE(peft_config_json(some_options(), "")["base_model_name_or_path"].is_null());
  put(folder / "adapter_config.json", config.dump());
  LoraOptions back = read_peft_config(folder.path());
  EXPECT_EQ(back.plus_ratio, 1.0) << "PEFT has no key for it";
  back.plus_ratio = 2;
  EXPECT_EQ(option_values(back), option_values(some_options()));
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
  identity["options"]["targets"] = {"wq", "output"};
  EXPECT_SAYS(refusal(ExitStatus::data, read), "targets is [\"wq\",\"output\"]");
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
