// Causal attention against the formula in fp64 by autograd, and every set of its row kernels against each other.
#include "model/attention.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <vector>

#include "../../support/plain_store.hpp"
#include "model/kernels/tensors.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;

struct Case {
  int64_t B, S, heads, kv_heads, D;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.B << " x " << c.S << ", " << c.heads << " heads on " << c.kv_heads << ", " << c.D << " features";
}

Tensor plain(const Tensor& query, const Tensor& key, const Tensor& value) {
  const int64_t S = query.size(1), shared = query.size(2) / key.size(2);
  const Tensor future = at::ones({S, S}, at::kBool).triu(1);
  const auto of_heads = [&](const Tensor& x) { return x.repeat_interleave(shared, 2).transpose(1, 2); };
  const Tensor scores =
      at::matmul(query.transpose(1, 2), of_heads(key).transpose(2, 3)) / std::sqrt(double(query.size(3)));
  const Tensor shares = at::softmax(scores.masked_fill(future, -1e30), -1);
  return at::matmul(shares, of_heads(value)).transpose(1, 2).flatten(2);
}

class Attention : public testing::TestWithParam<Case> {
 protected:
  /// Distances of the output and of the three gradients from those in fp64.
  std::vector<double> distances(at::ScalarType type, double spread) {
    const auto [B, S, heads, kv_heads, D] = GetParam();
    at::manual_seed(3);
    const Tensor query = (at::randn({B, S, heads, D}) * spread).to(type).requires_grad_(true);
    const Tensor key = (at::randn({B, S, kv_heads, D}) * spread).to(type).requires_grad_(true);
    const Tensor value = at::randn({B, S, kv_heads, D}).to(type).requires_grad_(true);
    const Tensor d_out = at::randn({B, S, heads * D}).to(type);
    std::vector<Tensor> wide;
    for (const Tensor& x : {query, key, value}) wide.push_back(x.detach().to(at::kDouble).requires_grad_(true));
    const Tensor expected = plain(wide[0], wide[1], wide[2]), found = causal_attention(query, key, value);
    const auto expected_d = torch::autograd::grad({expected}, wide, {d_out.to(at::kDouble)});
    const auto found_d = torch::autograd::grad({found}, {query, key, value}, {d_out});
    EXPECT_EQ(found.scalar_type(), type);
    std::vector<double> all{distance(found, expected)};
    for (size_t i = 0; i < 3; ++i) all.push_back(distance(found_d[i], expected_d[i]));
    return all;
  }
};

TEST_P(Attention, InFp32IsTheFormulaAndSoAreItsGradients) {
  // fp32 holds 6e-8; a sum of S products loses a few times that.
  for (const double d : distances(at::kFloat, 1.0)) EXPECT_LT(d, 2e-6);
}

TEST_P(Attention, InBf16IsTheFormulaToTheRoundingOfSharesAndResults) {
  // bf16 holds 2e-3: the shares and the result are rounded, in backward the differences as well.
  for (const double d : distances(at::kBFloat16, 1.0)) EXPECT_LT(d, 8e-3);
}

TEST_P(Attention, InBf16DoesNotRoundTheScores) {
  // Scores with a deviation of 16, rounded to bf16, would put the result off by 1.3e-2.
  EXPECT_LT(distances(at::kBFloat16, 4.0)[0], 4e-3);
}

// One position; less than a vector; one block; two blocks with a tail; several groups of heads with a tail; heads
// shared.
INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(Case{1, 1, 1, 1, 2}, Case{2, 5, 2, 2, 4}, Case{2, 128, 2, 2, 32},
                                         Case{1, 131, 4, 4, 16}, Case{4, 300, 4, 4, 8}, Case{3, 257, 6, 2, 8}));

class AttentionKernels : public testing::TestWithParam<kernels::Isa> {
 protected:
  void SetUp() override {
    if (!kernels::runs(GetParam())) GTEST_SKIP() << "this processor has no such instructions";
  }
  template <class T>
  void compare(at::ScalarType type, double tolerance) {
    const float scale = 0.3F;
    for (const int64_t width : {1, 15, 16, 40})
      for (const int64_t count : {int64_t{1}, width / 2 + 1, width}) {
        at::manual_seed(width);
        Tensor products = at::randn({width}).mul_(20).to(type), d = at::randn({width}).to(type);
        const Tensor rest = at::randn({width}).mul_(0.05).to(type);
        const Tensor x = (products.to(at::kDouble) - rest.to(at::kDouble)).narrow(0, 0, count) * double(scale);
        const Tensor p = at::softmax(x, 0), wide_d = d.to(at::kDouble).narrow(0, 0, count);
        const Tensor expected_d = double(scale) * p * (wide_d - (p * wide_d).sum());
        Tensor again = products.clone();
        std::vector<float> scratch(size_t(width), 0.0F);
        const auto& rows = kernels::rows<T>(GetParam());
        const float log_sum =
            rows.causal_softmax(kernels::out<T>(products), kernels::in<T>(rest), scale, scratch.data(), count, width);
        rows.causal_softmax_backward(kernels::out<T>(again), kernels::in<T>(rest), kernels::out<T>(d), scale, log_sum,
                                     scratch.data(), count, width);
        EXPECT_NEAR(log_sum, at::logsumexp(x, 0).item<double>(), 1e-5);
        EXPECT_LT(distance(products.narrow(0, 0, count), p), tolerance);
        EXPECT_LT(distance(again, products), tolerance) << "the shares again, from their log-sum-exp";
        EXPECT_LT((d.narrow(0, 0, count).to(at::kDouble) - expected_d).norm().item<double>(),
                  tolerance * wide_d.norm().item<double>());
        for (const Tensor& one : {products, d})
          EXPECT_EQ(one.narrow(0, count, width - count).abs().sum().item<double>(), 0) << "keys that nobody reads";
      }
  }
};

TEST_P(AttentionKernels, SoftmaxAndItsGradientAreTheFormulas) {
  compare<float>(at::kFloat, 2e-6);
  compare<kernels::Bf16>(at::kBFloat16, 4e-3);
}

INSTANTIATE_TEST_SUITE_P(Sets, AttentionKernels,
                         testing::Values(kernels::Isa::generic, kernels::Isa::avx2, kernels::Isa::avx512));

}  // namespace
}  // namespace wmtp
