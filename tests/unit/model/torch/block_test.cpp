// A block against a plain one with explicit heads, mask and softmax, in fp64 by autograd.
#include "model/torch/block.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>

#include "base/error.hpp"
#include "model/torch/ops.hpp"
#include "model/torch/parameter_layout.hpp"
#include "support/plain_store.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;
using test::PlainStore;

constexpr int64_t num_sequences = 2, positions = 6;

ModelConfig small(int64_t kv_heads) {
  ModelConfig model;
  model.dim = 8;
  model.layers = 2;
  model.heads = 4;
  model.kv_heads = kv_heads;
  model.ffn_dim = 12;
  model.vocab_size = 5;
  model.future_tokens = 1;
  return model;
}

/// Low rank on the values, with dropout, so that both uses of a Call are tested.
class BesideValues : public LinearAdapter {
 public:
  explicit BesideValues(double dropout) : dropout_(dropout) {}
  bool trains(const std::string&) const override { return true; }
  std::vector<Param> declare(const Linear& layer) const override {
    if (!layer.name.ends_with("wv")) return {};
    return {{"lora_A", {3, layer.in}}, {"lora_B", {layer.out, 3}}};
  }
  Tensor forward(const Linear&, const Tensor& x, LinearCall& call) const override {
    return call.base(x) + call.linear(call.linear(call.dropout(x, dropout_), "lora_A"), "lora_B");
  }

  Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>&) const override { return weight; }

 private:
  double dropout_;
};

class BlockTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    at::manual_seed(5);
    input_ = at::randn({num_sequences, positions, 8}).requires_grad_(true);
    d_output_ = at::randn({num_sequences, positions, 8});
    context_ = {true, 1, 1, at::arange(num_sequences, at::kLong), {}};
  }
  Block make(const Adapter* adapter = nullptr) {
    model_ = small(GetParam());
    ModelSpec spec;
    spec.model = &model_;
    spec.adapter = adapter;
    for (const UnitSpec& unit : model_units(spec))
      for (const ParameterSpec& parameter : unit.parameters)
        handles_[parameter.name] = store_.add(at::randn(parameter.shape) * 0.5);
    return {model_, "layers.0", [this](const std::string& name) { return handles_.at(name); }, adapter};
  }
  Tensor table() const { return rotary_table(positions + 3, head_dim(model_), model_.rope_theta, at::kCPU); }
  Tensor plain(const Tensor& x);
  Tensor wide(const std::string& name) {
    const auto [place, fresh] = wide_.try_emplace(name);
    if (fresh) place->second = handles_.at("layers.0." + name).weight().to(at::kDouble).requires_grad_(true);
    return place->second;
  }

  ModelConfig model_;
  PlainStore store_;
  std::map<std::string, WeightHandle> handles_;
  std::map<std::string, Tensor> wide_;
  Tensor input_, d_output_;
  ForwardContext context_;
};

Tensor plain_norm(const Tensor& x, const Tensor& weight, double eps) {
  return x / (x.square().mean(-1, true) + eps).sqrt() * weight;
}

Tensor plain_rotation(const Tensor& x, double theta) {  // [B,S,D of one head]
  const int64_t dim = x.size(-1);
  std::vector<Tensor> features;
  for (int64_t i = 0; i < dim; i += 2) {
    const Tensor angle = (at::arange(x.size(1), at::kDouble) * std::pow(theta, -double(i) / double(dim))).view({1, -1});
    features.push_back(x.select(-1, i) * angle.cos() - x.select(-1, i + 1) * angle.sin());
    features.push_back(x.select(-1, i) * angle.sin() + x.select(-1, i + 1) * angle.cos());
  }
  return at::stack(features, -1);
}

Tensor BlockTest::plain(const Tensor& x) {
  const int64_t size = head_dim(model_), shared_by = model_.heads / model_.kv_heads;
  const Tensor n = plain_norm(x, wide("attention_norm.weight"), model_.norm_eps);
  Tensor value_weight = wide("attention.wv.weight");
  if (handles_.count("layers.0.attention.wv.lora_A"))
    value_weight = value_weight + at::mm(wide("attention.wv.lora_B"), wide("attention.wv.lora_A"));
  const Tensor q = at::matmul(n, wide("attention.wq.weight").t()), k = at::matmul(n, wide("attention.wk.weight").t()),
               v = at::matmul(n, value_weight.t());
  const Tensor future = at::ones({positions, positions}, at::kBool).triu(1);
  std::vector<Tensor> heads;
  for (int64_t h = 0; h < model_.heads; ++h) {
    const auto part = [&](const Tensor& all, int64_t head) { return all.narrow(-1, head * size, size); };
    const Tensor query = plain_rotation(part(q, h), model_.rope_theta);
    const Tensor key = plain_rotation(part(k, h / shared_by), model_.rope_theta);
    const Tensor scores = at::matmul(query, key.transpose(1, 2)) / std::sqrt(double(size));
    heads.push_back(at::matmul(at::softmax(scores.masked_fill(future, -1e30), -1), part(v, h / shared_by)));
  }
  const Tensor h = x + at::matmul(at::cat(heads, -1), wide("attention.wo.weight").t());
  const Tensor m = plain_norm(h, wide("ffn_norm.weight"), model_.norm_eps);
  const Tensor gate = at::matmul(m, wide("feed_forward.w1.weight").t());
  return h + at::matmul(gate * gate.sigmoid() * at::matmul(m, wide("feed_forward.w3.weight").t()),
                        wide("feed_forward.w2.weight").t());
}

TEST_P(BlockTest, OutputAndEveryGradientEqualThePlainBlock) {
  const Block block = make();
  const Tensor output = block.forward(input_, table(), context_);
  const Tensor d_input = torch::autograd::grad({output}, {input_}, {d_output_})[0];
  const Tensor x = input_.detach().to(at::kDouble).requires_grad_(true);
  const Tensor expected = plain(x);
  expected.backward(d_output_.to(at::kDouble));
  EXPECT_LT(distance(output, expected), 2e-6);
  EXPECT_LT(distance(d_input, x.grad()), 5e-6);
  ASSERT_EQ(wide_.size(), 9U);
  for (const auto& [name, weight] : wide_)
    EXPECT_LT(distance(store_.gradient(handles_.at("layers.0." + name)), weight.grad()), 5e-6) << name;
}

TEST_P(BlockTest, NoPositionDependsOnALaterOne) {
  const Block block = make();
  Tensor changed = input_.detach().clone();
  changed.narrow(1, 4, 2).add_(1.0);
  const Tensor before = block.forward(input_.detach(), table(), context_),
               after = block.forward(changed, table(), context_);
  EXPECT_LT(distance(after.narrow(1, 0, 4), before.narrow(1, 0, 4)), 1e-6);
  EXPECT_GT(distance(after.narrow(1, 4, 2), before.narrow(1, 4, 2)), 1e-2);
}

TEST_P(BlockTest, AdapterParametersAreUsedAndDifferentiated) {
  const BesideValues adapter(0.0);
  const Block block = make(&adapter);
  const Tensor output = block.forward(input_, table(), context_);
  torch::autograd::grad({output}, {input_}, {d_output_});
  const Tensor expected = plain(input_.detach().to(at::kDouble));
  expected.backward(d_output_.to(at::kDouble));
  EXPECT_LT(distance(output, expected), 2e-6);
  for (const char* name : {"attention.wv.lora_A", "attention.wv.lora_B", "attention.wv.weight"})
    EXPECT_LT(distance(store_.gradient(handles_.at("layers.0." + std::string(name))), wide(name).grad()), 5e-6) << name;
}

TEST_P(BlockTest, DropoutDependsOnSequenceAndStepOnly) {
  const BesideValues adapter(0.5);
  const Block block = make(&adapter);
  const auto run = [&](const Tensor& x, const ForwardContext& context) {
    return block.forward(x.detach(), table(), context);
  };
  const Tensor first = run(input_, context_);
  EXPECT_TRUE(at::equal(run(input_, context_), first)) << "a second run draws differently";
  ForwardContext second_alone = context_, next_step = context_, evaluating = context_;
  second_alone.sequence = context_.sequence.narrow(0, 1, 1);
  EXPECT_LT(distance(run(input_.narrow(0, 1, 1), second_alone), first.narrow(0, 1, 1)), 1e-6) << "depends on the batch";
  next_step.step = 2;
  EXPECT_GT(distance(run(input_, next_step), first), 1e-3) << "every step draws the same";
  evaluating.training = false;
  EXPECT_LT(distance(run(input_, evaluating), plain(input_.detach().to(at::kDouble))), 2e-6) << "drops when evaluating";
}

INSTANTIATE_TEST_SUITE_P(All, BlockTest, testing::Values(4, 2, 1),
                         [](const auto& info) { return std::to_string(info.param) + "KeyHeads"; });

TEST(LinearLayer, AnAdapterThatReadsAnUndeclaredParameterIsRefused) {
  class Asks : public LinearAdapter {
   public:
    bool trains(const std::string&) const override { return false; }
    std::vector<Param> declare(const Linear& layer) const override { return {{"lora_A", {1, layer.in}}}; }
    Tensor forward(const Linear&, const Tensor& x, LinearCall& call) const override { return call.linear(x, "lora_C"); }
    Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>&) const override { return weight; }
  } adapter;
  PlainStore store;
  const LinearLayer layer(
      {"layers.0.attention.wq", 4, 4}, ParameterCut::rows,
      [&](const std::string&) {
        return store.add(at::ones({4, 4}));
      },
      &adapter);
  try {
    layer(at::ones({1, 4}), ForwardContext{});
    FAIL() << "an unknown parameter was used";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("lora_C"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("layers.0.attention.wq"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace wmtp
