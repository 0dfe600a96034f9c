// The shipped adapters, compared with the formulas in their source files.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "fake_call.hpp"
#include "model/torch/parameter_layout.hpp"
#include "plugin_files.hpp"
#include "plugins/torch/loader.hpp"

namespace wmtp {
namespace {

using test::described;
using test::FakeCall;

std::unique_ptr<LinearAdapter> lora(const OptionValues& changes) {
  const PluginDescription description = described("adapter", "lora");
  OptionValues values;
  for (const OptionSpec& option : description.options) values[option.name] = option.default_value;
  for (const auto& [name, value] : changes) values[name] = value;
  std::unique_ptr<Adapter> adapter = create_adapter(description, values);
  return std::unique_ptr<LinearAdapter>(dynamic_cast<LinearAdapter*>(adapter.release()));
}

const Linear layer{"layers.1.attention.wv", 10, 6};

/// The parameters of `layer`, with values as after some optimizer steps.
std::map<std::string, Tensor> trained(const LinearAdapter& adapter) {
  std::map<std::string, Tensor> params;
  for (const Param& param : adapter.declare(layer)) {
    params[param.name] = at::randn(param.shape);
    if (param.name == "magnitude") params[param.name].abs_().add_(0.5);
    params[param.name].requires_grad_(true);
  }
  return params;
}

std::vector<Tensor> in_order(const LinearAdapter& adapter, const std::map<std::string, Tensor>& params) {
  std::vector<Tensor> values;
  for (const Param& param : adapter.declare(layer)) values.push_back(params.at(param.name).detach());
  return values;
}

TEST(FullAdapter, TrainsEverythingAndAddsNothing) {
  const auto full = create_adapter(described("adapter", "full"), {});
  EXPECT_TRUE(full->trains("layers.0.attention.wq.weight"));
  EXPECT_TRUE(full->trains("tok_embeddings.weight"));
  EXPECT_TRUE(declared(full.get(), layer).empty());
}

TEST(FrozenAdapter, TrainsNothingAndAddsNothing) {
  const auto frozen = create_adapter(described("adapter", "frozen"), {});
  EXPECT_FALSE(frozen->trains("layers.0.attention.wq.weight"));
  EXPECT_FALSE(frozen->trains("norm.weight"));
  EXPECT_TRUE(declared(frozen.get(), layer).empty());
}

TEST(Lora, AdaptsTheAttentionByDefaultAndTrainsNothingElse) {
  const auto usual = lora({});
  for (const char* name :
       {"layers.0.attention.wq", "layers.31.attention.wk", "extra_heads.2.attention.wv", "layers.0.attention.wo"})
    EXPECT_FALSE(usual->declare({name, 8, 8}).empty()) << name;
  for (const char* name : {"layers.0.feed_forward.w1", "layers.0.feed_forward.w2", "extra_heads.0.feed_forward.w3"})
    EXPECT_TRUE(usual->declare({name, 8, 8}).empty()) << name;
  EXPECT_FALSE(usual->trains("layers.0.attention.wq.weight"));
  const auto chosen = lora({{"targets", std::vector<std::string>{"w2"}}});
  EXPECT_TRUE(chosen->declare({"layers.0.attention.wq", 8, 8}).empty());
  EXPECT_FALSE(chosen->declare({"extra_heads.0.feed_forward.w2", 8, 8}).empty());
}

TEST(Lora, DeclaresAUniformAndAZeroMatrixWithTheirLearningRates) {
  const auto declared = lora({{"rank", int64_t{3}}, {"plus_ratio", 16.0}})->declare(layer);
  ASSERT_EQ(declared.size(), 2U);
  EXPECT_EQ(declared[0].shape, (std::vector<int64_t>{3, 10}));
  EXPECT_EQ(declared[0].init, Param::Init::uniform);
  EXPECT_DOUBLE_EQ(declared[0].bound, 1 / std::sqrt(10.0));
  EXPECT_EQ(declared[0].lr_scale, 1);
  EXPECT_EQ(declared[1].shape, (std::vector<int64_t>{6, 3}));
  EXPECT_EQ(declared[1].init, Param::Init::zeros);
  EXPECT_EQ(declared[1].lr_scale, 16);
  EXPECT_TRUE(declared[0].decays && declared[1].decays);
  EXPECT_EQ(std::pair(declared[0].rows, declared[0].columns), std::pair(Cut::none, Cut::in));
  EXPECT_EQ(std::pair(declared[1].rows, declared[1].columns), std::pair(Cut::out, Cut::none));
}

TEST(Lora, TheUpdateIsScaledByAlphaOverTheRankOrOverItsRoot) {
  at::manual_seed(5);
  for (const bool root : {false, true}) {
    const auto adapter = lora({{"rank", int64_t{4}}, {"alpha", 6.0}, {"rslora", root}});
    const auto params = trained(*adapter);
    const Tensor weight = at::randn({6, 10}), x = at::randn({2, 5, 10});
    FakeCall call(weight, params);
    const Tensor update = at::matmul(at::matmul(x, params.at("lora_A").t()), params.at("lora_B").t());
    const Tensor wanted = at::matmul(x, weight.t()) + update * (root ? 3.0 : 1.5);
    EXPECT_TRUE(at::allclose(adapter->forward(layer, x, call), wanted, 1e-5, 1e-5));
  }
}

TEST(Lora, OfRankEightOnTheAttentionOfTheSevenBillionModelHasItsKnownSize) {
  ModelConfig model;
  model.dim = 4096;
  model.layers = 32;
  model.heads = model.kv_heads = 32;
  model.ffn_dim = 11008;
  model.vocab_size = 32000;
  const auto adapter = lora({{"rank", int64_t{8}}});
  ModelSpec spec;
  spec.model = &model;
  spec.adapter = adapter.get();
  int64_t trained = 0;
  for (const UnitSpec& unit : model_units(spec))
    for (const ParameterSpec& parameter : unit.parameters) trained += parameter.trains ? parameter.count() : 0;
  EXPECT_EQ(trained, 8'388'608);
}

TEST(Lora, DropoutIsOnTheInputOfTheUpdateAlone) {
  const auto adapter = lora({{"dropout", 0.25}});
  const Tensor x = at::randn({2, 5, 10});
  FakeCall call(at::randn({6, 10}), trained(*adapter));
  adapter->forward(layer, x, call);
  EXPECT_EQ(call.dropped, 0.25);
  EXPECT_TRUE(call.dropout_input.is_same(x));
}

TEST(Lora, TheMergedWeightComputesWhatTheAdapterComputed) {
  at::manual_seed(6);
  for (const bool dora : {false, true}) {
    const auto adapter = lora({{"rank", int64_t{3}}, {"dora", dora}});
    const auto params = trained(*adapter);
    const Tensor weight = at::randn({6, 10}), x = at::randn({2, 5, 10});
    FakeCall call(weight, params);
    const Tensor merged = adapter->merged(layer, weight, in_order(*adapter, params));
    EXPECT_TRUE(at::allclose(adapter->forward(layer, x, call), at::matmul(x, merged.t()), 1e-5, 1e-5));
    const Tensor plain = weight + at::mm(params.at("lora_B"), params.at("lora_A")) * (16.0 / 3);
    EXPECT_TRUE(dora || at::equal(merged, plain));
  }
}

TEST(Dora, StartsAsTheModelThatItAdapts) {
  at::manual_seed(7);
  const auto adapter = lora({{"dora", true}});
  const auto declared = adapter->declare(layer);
  ASSERT_EQ(declared.size(), 3U);
  EXPECT_EQ(declared[2].shape, (std::vector<int64_t>{1, 6}));
  EXPECT_EQ(declared[2].init, Param::Init::row_norms);
  EXPECT_FALSE(declared[2].decays) << "it is a length, as a norm's weight is";
  const Tensor weight = at::randn({6, 10}), x = at::randn({4, 10});
  FakeCall call(
      weight,
      {{"lora_A", at::randn({8, 10})}, {"lora_B", at::zeros({6, 8})}, {"magnitude", weight.norm(2, 1).unsqueeze(0)}});
  EXPECT_TRUE(at::allclose(adapter->forward(layer, x, call), at::matmul(x, weight.t()), 1e-6, 1e-6));
}

TEST(Dora, TheLengthCountsAsAConstantInBackward) {
  at::manual_seed(8);
  const auto adapter = lora({{"rank", int64_t{3}}, {"alpha", 3.0}, {"dora", true}});
  const auto params = trained(*adapter);
  const Tensor weight = at::randn({6, 10}), x = at::randn({4, 10}), dy = at::randn({4, 6});
  FakeCall call(weight, params);
  const Tensor &a = params.at("lora_A"), &b = params.at("lora_B"), &m = params.at("magnitude");
  const auto found = torch::autograd::grad({adapter->forward(layer, x, call)}, {a, b, m}, {dy});
  const Tensor length = (weight + at::mm(b, a)).detach().norm(2, 1).unsqueeze(0);
  const Tensor wanted_y = m / length * (at::matmul(x, weight.t()) + at::matmul(at::matmul(x, a.t()), b.t()));
  const auto wanted = torch::autograd::grad({wanted_y}, {a, b, m}, {dy});
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::allclose(found[i], wanted[i], 1e-4, 1e-5)) << i;
}

TEST(Dora, ARowOfZerosStaysFinite) {
  const auto adapter = lora({{"rank", int64_t{2}}, {"dora", true}});
  const Tensor weight = at::zeros({6, 10}), a = at::randn({2, 10}), b = at::zeros({6, 2}), m = at::zeros({1, 6});
  FakeCall call(weight, {{"lora_A", a}, {"lora_B", b}, {"magnitude", m}});
  EXPECT_TRUE(at::equal(adapter->forward(layer, at::randn({4, 10}), call), at::zeros({4, 6})));
  EXPECT_TRUE(at::equal(adapter->merged(layer, weight, {a, b, m}), weight));
}

}  // namespace
}  // namespace wmtp
