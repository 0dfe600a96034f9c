// Every operation against the same formula in plain ATen, differentiated by autograd in fp64.
#include "model/torch/ops.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/torch/dropout.hpp"
#include "model/torch/row_ops.hpp"
#include "support/plain_store.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;
using test::PlainStore;

Tensor leaf(const Tensor& x) { return x.detach().clone().requires_grad_(true); }
Tensor wide_leaf(const Tensor& x) { return leaf(x.to(at::kDouble)); }
std::vector<Tensor> gradients(const Tensor& output, const std::vector<Tensor>& inputs, const Tensor& d_output) {
  return torch::autograd::grad({output}, inputs, {d_output.to(output.scalar_type())});
}

class Ops : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(7); }
  PlainStore store_;
};

TEST_F(Ops, LinearIsAProductWithTheTransposedWeight) {
  const Tensor x = leaf(at::randn({2, 5, 6})), d = at::randn({2, 5, 4});
  const WeightHandle weight = store_.add(at::randn({4, 6}));
  const Tensor y = linear(x, weight);
  const Tensor plain_x = wide_leaf(x), plain_w = wide_leaf(weight.weight());
  const Tensor plain = at::matmul(plain_x, plain_w.t());
  const auto expected = gradients(plain, {plain_x, plain_w}, d);
  EXPECT_LT(distance(y, plain), 1e-6);
  EXPECT_LT(distance(gradients(y, {x}, d)[0], expected[0]), 1e-6);
  EXPECT_LT(distance(store_.gradient(weight), expected[1]), 1e-6);
}

TEST_F(Ops, LinearUsedTwiceSumsItsGradients) {
  const Tensor x = leaf(at::randn({3, 6})), d = at::randn({3, 6});
  const WeightHandle weight = store_.add(at::randn({6, 6}));
  gradients(linear(linear(x, weight), weight), {x}, d);
  const Tensor plain_x = wide_leaf(x), plain_w = wide_leaf(weight.weight());
  const auto expected = gradients(at::matmul(at::matmul(plain_x, plain_w.t()), plain_w.t()), {plain_w}, d);
  EXPECT_LT(distance(store_.gradient(weight), expected[0]), 1e-6);
}

TEST_F(Ops, ScaleMultipliesEachFeatureByItsWeight) {
  const Tensor x = leaf(at::randn({2, 5, 6})), d = at::randn({2, 5, 6});
  const WeightHandle weight = store_.add(at::randn({1, 6}));
  const Tensor y = scale(x, weight);
  const Tensor plain_x = wide_leaf(x), plain_w = wide_leaf(weight.weight());
  const auto expected = gradients(plain_x * plain_w, {plain_x, plain_w}, d);
  EXPECT_TRUE(at::equal(y, x * weight.weight()));
  EXPECT_LT(distance(gradients(y, {x}, d)[0], expected[0]), 1e-6);
  EXPECT_LT(distance(store_.gradient(weight), expected[1]), 1e-6);
}

TEST_F(Ops, AFrozenWeightGetsNoGradientButPassesOneOn) {
  const Tensor x = leaf(at::randn({3, 6}));
  const WeightHandle weight = store_.add(at::randn({6, 6}), /*trains=*/false);
  const WeightHandle norm = store_.add(at::randn({6}), /*trains=*/false);
  const Tensor dx = gradients(rms_norm(linear(x, weight), norm, 1e-5), {x}, at::randn({3, 6}))[0];
  EXPECT_GT(dx.norm().item<float>(), 0.0F);
  EXPECT_EQ(store_.writes, 0);
}

TEST_F(Ops, RmsNormDividesByTheRootMeanSquareOfTheLastDimension) {
  const Tensor x = leaf(at::randn({2, 3, 8}) * 3), d = at::randn({2, 3, 8});
  const WeightHandle weight = store_.add(at::randn({8}));
  const double eps = 1e-2;  // large, so that it matters
  const Tensor y = rms_norm(x, weight, eps);
  const Tensor plain_x = wide_leaf(x), plain_w = wide_leaf(weight.weight());
  const Tensor plain = plain_x / (plain_x.square().mean(-1, true) + eps).sqrt() * plain_w;
  const auto expected = gradients(plain, {plain_x, plain_w}, d);
  EXPECT_LT(distance(y, plain), 1e-6);
  EXPECT_LT(distance(gradients(y, {x}, d)[0], expected[0]), 2e-6);
  EXPECT_LT(distance(store_.gradient(weight), expected[1]), 1e-6);
}

TEST_F(Ops, RmsNormOfHalfPrecisionIsComputedInFp32) {
  // In bf16 the sum of squares of 4,096 ones would stop growing at 256.
  const Tensor x = leaf(at::ones({1, 4096}, at::kBFloat16));
  const WeightHandle weight = store_.add(at::ones({4096}, at::kBFloat16));
  const Tensor y = rms_norm(x, weight, 0.0);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(y.detach(), at::ones({1, 4096}, at::kBFloat16)));
}

TEST_F(Ops, SwigluIsSiluOfTheGateTimesUp) {
  const Tensor gate = leaf(at::randn({2, 3, 8}) * 2), up = leaf(at::randn({2, 3, 8})), d = at::randn({2, 3, 8});
  const Tensor y = swiglu(gate, up);
  const Tensor plain_gate = wide_leaf(gate), plain_up = wide_leaf(up);
  const Tensor plain = plain_gate / (1 + (-plain_gate).exp()) * plain_up;
  const auto expected = gradients(plain, {plain_gate, plain_up}, d), given = gradients(y, {gate, up}, d);
  EXPECT_LT(distance(y, plain), 1e-6);
  EXPECT_LT(distance(given[0], expected[0]), 1e-6);
  EXPECT_LT(distance(given[1], expected[1]), 1e-6);
}

TEST_F(Ops, ABiasIsAddedToEveryRowAndItsGradientIsTheSum) {
  const Tensor x = leaf(at::randn({2, 3, 1})), d = at::randn({2, 3, 1});
  const WeightHandle bias = store_.add(at::full({1, 1}, 2.5));
  const Tensor y = add_bias(x, bias);
  EXPECT_LT(distance(y, x + 2.5), 1e-7);
  EXPECT_LT(distance(gradients(y, {x}, d)[0], d), 1e-7);
  EXPECT_NEAR(store_.gradient(bias).item<double>(), d.sum().item<double>(), 1e-5);
}

TEST_F(Ops, RotateRotatesInterleavedPairsByPositionTimesFrequency) {
  const int64_t S = 5, D = 6;
  const double theta = 100;
  const Tensor x = leaf(at::randn({2, S, 3, D})), d = at::randn({2, S, 3, D});
  const Tensor y = rotate(x, rotary_table(S, D, theta, at::kCPU));
  const Tensor plain_x = wide_leaf(x);
  std::vector<Tensor> features;
  for (int64_t i = 0; i < D / 2; ++i) {
    const Tensor angle = at::arange(S, at::kDouble) * std::pow(theta, -2.0 * double(i) / double(D));
    const Tensor c = angle.cos().view({1, S, 1}), s = angle.sin().view({1, S, 1});
    const Tensor even = plain_x.select(-1, 2 * i), odd = plain_x.select(-1, 2 * i + 1);
    features.push_back(even * c - odd * s);
    features.push_back(even * s + odd * c);
  }
  const Tensor plain = at::stack(features, -1);
  EXPECT_LT(distance(y, plain), 1e-6);
  EXPECT_LT(distance(gradients(y, {x}, d)[0], gradients(plain, {plain_x}, d)[0]), 1e-6);
}

TEST_F(Ops, RopeScalingReducesOnlyLowFrequencies) {
  const int64_t S = 3, D = 128;
  const double theta = 500000;
  const auto angles = [&](const std::optional<RopeScaling>& scaling) {
    return at::angle(rotary_table(S, D, theta, at::kCPU, scaling)[1]).to(at::kDouble);
  };
  const Tensor plain = angles({});
  EXPECT_LT(distance(angles(RopeScaling{RopeType::linear, 4}), plain / 4), 1e-6);
  const Tensor llama3 = angles(RopeScaling{RopeType::llama3, 8, 1, 4, 8192});
  int slow = 0, fast = 0, between = 0;
  for (int64_t i = 0; i < D / 2; ++i) {
    const double angle = plain[i].item<double>(), wave = 2 * M_PI / angle, found = llama3[i].item<double>();
    const double smooth = (8192 / wave - 1) / (4 - 1);  // transformers, _compute_llama3_parameters
    const double wanted = wave > 8192 ? angle / 8 : wave < 2048 ? angle : (1 - smooth) * angle / 8 + smooth * angle;
    (wave > 8192 ? slow : wave < 2048 ? fast : between) += 1;
    EXPECT_NEAR(found / wanted, 1, 1e-5) << i;
  }
  EXPECT_GT(slow, 5);
  EXPECT_GT(fast, 5);
  EXPECT_GT(between, 2);
}

TEST_F(Ops, YarnReducesTheFrequenciesWithFewRotationsAndLengthensAllPairs) {
  const int64_t S = 3, D = 128, length = 8192;
  const double theta = 500000, factor = 8, stretch = 1.25;
  const Tensor table =
      rotary_table(S, D, theta, at::kCPU, RopeScaling{RopeType::yarn, factor, 0, 0, length, stretch, 32, 1});
  EXPECT_LT(distance(table.abs(), at::full({S, D / 2}, stretch)), 1e-6);
  const Tensor plain = at::angle(rotary_table(S, D, theta, at::kCPU)[1]), found = at::angle(table[1]);
  int slow = 0, fast = 0;
  double before = 1;  // the share of a frequency that remains, which falls from 1 to 1 / factor
  for (int64_t i = 0; i < D / 2; ++i) {
    const double turns = plain[i].item<double>() * length / (2 * M_PI);
    const double share = found[i].item<double>() / plain[i].item<double>();
    EXPECT_LT(share, before + 1e-5) << i;
    before = share;
    if (turns > 40) {
      EXPECT_NEAR(share, 1, 1e-5) << i;
      ++fast;
    }
    if (turns < 0.8) {
      EXPECT_NEAR(share, 1 / factor, 1e-5) << i;
      ++slow;
    }
  }
  EXPECT_GT(slow, 5);
  EXPECT_GT(fast, 5);
}

TEST_F(Ops, TheGradientOfABiasIsSummedInFp32) {
  const Tensor x = leaf(at::zeros({300, 2}, at::kBFloat16)), d = at::ones({300, 2}, at::kBFloat16);
  const WeightHandle bias = store_.add(at::ones({2}, at::kBFloat16));
  gradients(add_bias(x, bias), {x}, d);
  EXPECT_EQ(store_.gradient(bias).sizes(), (at::IntArrayRef{2}));
  EXPECT_EQ(store_.gradient(bias)[0].item<float>(), 300.0f) << "in bf16 it would stop at 256";
}

TEST_F(Ops, ProductsOfRotatedVectorsDependOnTheirDistanceOnly) {
  const Tensor table = rotary_table(12, 8, 10000.0, at::kCPU);
  const Tensor query = rotate(at::randn({8}).expand({1, 12, 1, 8}).contiguous(), table).squeeze();
  const Tensor key = rotate(at::randn({8}).expand({1, 12, 1, 8}).contiguous(), table).squeeze();
  const auto meet = [&](int64_t q, int64_t k) { return at::dot(query[q], key[k]).item<float>(); };
  EXPECT_NEAR(meet(3, 1), meet(11, 9), 1e-4);
  EXPECT_GT(std::abs(meet(3, 1) - meet(11, 1)), 1e-3);
}

TEST_F(Ops, KernelsRefuseTensorsThatTheyWouldReadInAnotherOrder) {
  const auto strided = [](at::IntArrayRef sizes) {
    return at::randn(sizes).unsqueeze(-1).repeat({1, 1, 2}).select(2, 0);
  };
  const Tensor x = at::randn({4, 8}), other = strided({4, 8}), scale = at::rand({4}), weight = at::randn({8});
  const Tensor targets = at::arange(8).view({4, 2}).select(1, 1), numbers = at::rand({4, 2}).select(1, 0);
  EXPECT_THROW(normed_rows(other, weight, 1e-5), c10::Error);
  EXPECT_THROW(normed_rows(x, strided({8, 1}).select(1, 0), 1e-5), c10::Error);
  EXPECT_THROW(normed_rows_backward(x, other, weight, scale, true), c10::Error);
  EXPECT_THROW(normed_rows_backward(x, x, weight, numbers, true), c10::Error);
  EXPECT_THROW(swiglu_rows(x, other), c10::Error);
  EXPECT_THROW(swiglu_rows_backward(x, x, other), c10::Error);
  EXPECT_THROW(rotated(other.view({1, 4, 2, 4}), at::ones({4, 2}, at::kComplexFloat), 1), c10::Error);
  EXPECT_THROW(rotated(x.view({1, 4, 2, 4}), at::ones({2, 4}, at::kComplexFloat).t(), 1), c10::Error);
  EXPECT_THROW(cross_entropy(x, targets, {}), c10::Error);
  EXPECT_THROW(cross_entropy(other, targets.contiguous(), {}), c10::Error);
  EXPECT_THROW(cross_entropy_gradient(x, targets, scale, scale), c10::Error);
  EXPECT_THROW(cross_entropy_gradient(x, targets.contiguous(), numbers, scale), c10::Error);
  EXPECT_THROW(cross_entropy_gradient(x, targets.contiguous(), scale, numbers), c10::Error);
  EXPECT_THROW(dropout_factors(x, 0.5, {1, 1, targets}), c10::Error);
  EXPECT_THROW(norm_parts(numbers, 2), c10::Error);
}

}  // namespace
}  // namespace wmtp
