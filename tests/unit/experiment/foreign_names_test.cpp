#include "experiment/foreign_names.hpp"

#include <gtest/gtest.h>

#include "experiment/schema.hpp"

namespace wmtp {
namespace {

TEST(ForeignNames, LeadToKeysThatExist) {
  for (const char* name :
       {"hidden_size", "num_hidden_layers", "intermediate_size", "block_size", "max_steps", "grad_clip",
        "learning_rate", "lr_scheduler_type", "bf16", "save_total_limit", "load_best_model_at_end", "eval_interval"}) {
    const std::string key = key_meant_by(name);
    const size_t dot = key.find('.');
    const SchemaTable* const table = find_table(key.substr(0, dot));
    ASSERT_TRUE(table) << name;
    EXPECT_TRUE(find_key(*table, key.substr(dot + 1))) << name << " leads to " << key;
  }
}

TEST(ForeignNames, SayWhatDiffers) {
  EXPECT_EQ(advice_for_foreign_name("hidden_size"), "write dim in [model]");
  EXPECT_EQ(advice_for_foreign_name("num_hidden_layers"),
            "write layers in [model] (trunk and heads together: num_hidden_layers + future_tokens - 1)");
  EXPECT_EQ(advice_for_foreign_name("dim"), "");
}

TEST(ForeignNames, MeanTheKeyOfThatNameInTheOutermostTable) {
  EXPECT_EQ(key_meant_by("lr"), "optimizer.lr");
  EXPECT_EQ(key_meant_by("seed"), "seed");          // also of [data.arithmetic]
  EXPECT_EQ(key_meant_by("steps"), "train.steps");  // the same
  EXPECT_EQ(key_meant_by("every_steps"), "");       // of [checkpoint], [log] and [validation]
  EXPECT_EQ(key_meant_by("nothing"), "");
}

TEST(ForeignNames, AreKeysWithTheirTablesAndMayBeJoinedOtherwise) {
  for (const char* name : {"train.steps", "train-steps", "train_steps"}) EXPECT_EQ(key_meant_by(name), "train.steps");
  EXPECT_EQ(key_meant_by("learning-rate"), "optimizer.lr");
  EXPECT_EQ(key_meant_by("checkpoint.every-steps"), "checkpoint.every_steps");
  EXPECT_EQ(key_meant_by("train.nothing"), "");
}

TEST(ForeignNames, OfLoraLeadToItsOptions) {
  EXPECT_EQ(lora_option_meant_by("r"), "rank");
  EXPECT_EQ(lora_option_meant_by("target_modules"), "targets");
  EXPECT_EQ(lora_option_meant_by("rank"), "");
}

}  // namespace
}  // namespace wmtp
