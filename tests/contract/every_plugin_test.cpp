// What the host learns about a plugin before and when it opens it, and what single test plugins do. The requirements of
// every shipped pipeline are in every_pipeline_test.cpp.
#include <gtest/gtest.h>

#include "fake_call.hpp"
#include "fake_step.hpp"
#include "plugin_files.hpp"
#include "plugins/torch/loader.hpp"

namespace wmtp {
namespace {

using test::described;
using test::FakeCall;
using test::FakeStep;

TEST(Plugins, TellTheirOptionsAndReads) {
  const PluginDescription rho1 = described("pipeline", "rho1");
  ASSERT_EQ(rho1.options.size(), 5U);
  EXPECT_EQ(rho1.options[0].name, "keep");
  EXPECT_EQ(rho1.options[0].default_value, OptionValue(0.6));
  EXPECT_EQ(rho1.options[0].max, 1.0);
  EXPECT_GT(rho1.options[0].min, 0.0);
  EXPECT_EQ(rho1.options[1].choices,
            (std::vector<std::string>{"signed", "absolute", "difficult", "self_loss", "self_entropy", "self_both"}));
  EXPECT_EQ(rho1.options[2].type, OptionSpec::Type::flag);
  EXPECT_EQ(rho1.needs->reads, (std::vector<std::string>{"policy.loss", "reference.loss"}));
  EXPECT_TRUE(described("pipeline", "baseline").needs->reads.empty());
}

TEST(Plugins, AnExperimentsValuesReachThePlugin) {
  FakeStep step(at::ones({2, 500, 1}, at::kBool));
  test::weigh(*create_weighting(described("pipeline", "random"), {{"keep", 0.25}}), step);
  const auto [sum, count] = step.metrics.at("random/selection_ratio");
  EXPECT_NEAR(sum / count, 0.25, 0.06);
}

TEST(Plugins, ARoleIsCheckedBeforeAnInstanceIsUsed) {
  EXPECT_THROW(create_objective(described("pipeline", "baseline"), {}), Error);
  EXPECT_THROW(create_adapter(described("pipeline", "rho1"), {}), Error);
}

TEST(Plugins, AFileThatChangedSinceItWasDescribedIsRefused) {
  PluginDescription description = described("pipeline", "value_objective");
  description.sha256 = std::string(64, '0');
  try {
    load_plugin(description);
    FAIL() << "another file was loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::plugin);
    EXPECT_NE(std::string(error.what()).find(std::string(64, '0')), std::string::npos);
  }
}

TEST(SmallLora, ItsForwardIsTheMergedWeightsForward) {
  const auto lora = create_adapter(described("adapter", "small_lora"), {{"rank", int64_t{3}}, {"alpha", 6.0}});
  const Linear layer{"layers.1.attention.wv", 10, 6};
  EXPECT_TRUE(lora->declare({"layers.1.feed_forward.w1", 10, 6}).empty());
  EXPECT_FALSE(lora->trains("layers.1.attention.wv.weight"));
  const auto declared = lora->declare(layer);
  ASSERT_EQ(declared.size(), 2U);
  EXPECT_EQ(declared[0].shape, (std::vector<int64_t>{3, 10}));
  EXPECT_EQ(declared[1].shape, (std::vector<int64_t>{6, 3}));
  EXPECT_DOUBLE_EQ(declared[0].bound, 1 / std::sqrt(10.0));
  EXPECT_EQ(declared[1].init, Param::Init::zeros);

  at::manual_seed(5);
  const Tensor weight = at::randn({6, 10}), a = at::randn({3, 10}), b = at::randn({6, 3}), x = at::randn({2, 5, 10});
  FakeCall call(weight, {{"lora_A", a}, {"lora_B", b}});
  const Tensor merged = lora->merged(layer, weight, {a, b});
  EXPECT_TRUE(at::allclose(lora->forward(layer, x, call), at::matmul(x, merged.t()), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(merged - weight, at::matmul(b, a) * 2, 1e-5, 1e-5));
}

TEST(ValueObjective, IsAMeanOverTheValidPositionsThatCanBeDifferentiated) {
  const PluginDescription description = described("pipeline", "value_objective");
  EXPECT_EQ(description.role, PluginRole::objective);
  EXPECT_EQ(description.needs->reads, std::vector<std::string>{"policy.value:return"});
  const auto objective = create_objective(description, {});
  FakeStep step(at::tensor(std::vector<int64_t>{1, 1, 0}).to(at::kBool).reshape({1, 3}));
  step.batch_in_hand.kind = at::tensor(std::vector<int64_t>{2, 2, 0}).to(at::kByte).reshape({1, 3});
  step.signals["policy.value:return"] = at::tensor(std::vector<float>{3, 0, 50}).reshape({1, 3});
  const Tensor loss = objective->loss(step);
  EXPECT_FLOAT_EQ(loss.item<float>(), (4 + 1) / 2.0F);
  loss.backward();
  const Tensor gradient = step.signals["policy.value:return"].grad();
  EXPECT_TRUE(at::allclose(gradient, at::tensor(std::vector<float>{2, -1, 0}).reshape({1, 3})));
}

}  // namespace
}  // namespace wmtp
