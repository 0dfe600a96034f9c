// Causal attention against the formula in fp64 by autograd, and the kernels of every instruction set against each
// other.
#include "model/torch/attention.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "model/chunks.hpp"
#include "model/torch/kernels/attention.hpp"
#include "model/torch/kernels/tensors.hpp"
#include "support/plain_store.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;

struct Case {
  int64_t B, S, heads, kv_heads, D;
  int64_t window = 0;
  std::vector<int64_t> documents{};  ///< lengths, in every row; a second row begins with the last
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.B << " x " << c.S << ", " << c.heads << " heads on " << c.kv_heads << ", " << c.D << " features, window "
       << c.window << ", " << c.documents.size() << " documents";
}

Documents documents_of(const Case& c) {
  if (c.documents.empty()) return {};
  Tensor documents = at::empty({c.B, c.S}, at::kInt);
  for (int64_t b = 0; b < c.B; ++b) {
    std::vector<int64_t> lengths = c.documents;
    if (b % 2 == 1) std::reverse(lengths.begin(), lengths.end());
    int64_t begin = 0;
    for (const int64_t length : lengths) {
      documents[b].narrow(0, begin, length).fill_(begin);
      begin += length;
    }
  }
  return {documents, {}};
}

Tensor plain(const Tensor& query, const Tensor& key, const Tensor& value, int64_t window, const Tensor& documents) {
  const int64_t S = query.size(1), shared = query.size(2) / key.size(2);
  Tensor hidden = at::ones({S, S}, at::kBool).triu(1);
  if (window > 0) hidden = hidden.logical_or(at::ones({S, S}, at::kBool).tril(-window));
  if (documents.defined()) hidden = hidden.logical_or(documents.unsqueeze(1).ne(documents.unsqueeze(2)).unsqueeze(1));
  const auto of_heads = [&](const Tensor& x) { return x.repeat_interleave(shared, 2).transpose(1, 2); };
  const Tensor scores =
      at::matmul(query.transpose(1, 2), of_heads(key).transpose(2, 3)) / std::sqrt(double(query.size(3)));
  const Tensor shares = at::softmax(scores.masked_fill(hidden, -1e30), -1);
  return at::matmul(shares, of_heads(value)).transpose(1, 2).flatten(2);
}

class Attention : public testing::TestWithParam<Case> {
 protected:
  /// Distances of the output and the three gradients from fp64.
  std::vector<double> distances(at::ScalarType type, double spread) {
    const auto& [B, S, heads, kv_heads, D, window, lengths] = GetParam();
    const Documents documents = documents_of(GetParam());
    at::manual_seed(3);
    const Tensor query = (at::randn({B, S, heads, D}) * spread).to(type).requires_grad_(true);
    const Tensor key = (at::randn({B, S, kv_heads, D}) * spread).to(type).requires_grad_(true);
    const Tensor value = at::randn({B, S, kv_heads, D}).to(type).requires_grad_(true);
    const Tensor d_out = at::randn({B, S, heads * D}).to(type);
    std::vector<Tensor> wide;
    for (const Tensor& x : {query, key, value}) wide.push_back(x.detach().to(at::kDouble).requires_grad_(true));
    const Tensor expected = plain(wide[0], wide[1], wide[2], window, documents.begins),
                 found = causal_attention(query, key, value, window, documents);
    const auto expected_d = torch::autograd::grad({expected}, wide, {d_out.to(at::kDouble)});
    const auto found_d = torch::autograd::grad({found}, {query, key, value}, {d_out});
    EXPECT_EQ(found.scalar_type(), type);
    std::vector<double> all{distance(found, expected)};
    for (size_t i = 0; i < 3; ++i) all.push_back(distance(found_d[i], expected_d[i]));
    return all;
  }
};

TEST_P(Attention, InFp32EqualsTheFormulaWithItsGradients) {
  // fp32 rounds by 6e-8; a sum of S products loses a few times that.
  for (const double d : distances(at::kFloat, 1.0)) EXPECT_LT(d, 2e-6);
}

TEST_P(Attention, InBf16EqualsTheFormulaUpToOneRounding) {
  // bf16 rounds by 2e-3: the results and, in tiles, shares and their gradients, whose errors mostly cancel in the sums.
  for (const double d : distances(at::kBFloat16, 1.0)) EXPECT_LT(d, 3e-3);
}

TEST_P(Attention, InBf16DoesNotRoundTheScores) {
  // Scores with a deviation of 16, rounded to bf16, would change the result by 1.3e-2.
  EXPECT_LT(distances(at::kBFloat16, 4.0)[0], 4e-3);
}

// One position; less than a vector; a block and a panel with a tail; heads whose queries are split; shared
// heads; features that fill one, two, three, four and six vectors.
INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(Case{1, 1, 1, 1, 2}, Case{2, 5, 2, 2, 4}, Case{2, 128, 2, 2, 32},
                                         Case{1, 531, 4, 4, 16}, Case{4, 300, 4, 4, 8}, Case{3, 257, 6, 2, 8},
                                         Case{1, 200, 2, 1, 48}, Case{1, 97, 3, 3, 64}, Case{2, 50, 2, 2, 96}));

// A token alone; less than a panel, across panels and blocks, with split queries and shared heads; all tokens.
INSTANTIATE_TEST_SUITE_P(Windows, Attention,
                         testing::Values(Case{2, 70, 2, 2, 16, 1}, Case{1, 331, 4, 4, 16, 7},
                                         Case{4, 300, 4, 2, 8, 100}, Case{1, 300, 2, 1, 48, 65},
                                         Case{2, 50, 2, 2, 32, 50}, Case{2, 50, 2, 2, 32, 51}));

// Of one token each; of a row; across panels and blocks, with split queries, shared heads and a window.
INSTANTIATE_TEST_SUITE_P(Documents, Attention,
                         testing::Values(Case{2, 4, 2, 2, 16, 0, {1, 1, 1, 1}}, Case{2, 70, 2, 2, 16, 0, {70}},
                                         Case{2, 131, 4, 4, 16, 0, {1, 63, 2, 65}},
                                         Case{4, 300, 4, 2, 8, 0, {100, 7, 193}},
                                         Case{2, 300, 2, 1, 48, 20, {30, 110, 160}},
                                         Case{2, 131, 4, 2, 32, 0, {1, 63, 2, 65}},
                                         Case{2, 300, 2, 1, 64, 20, {30, 110, 160}}));

TEST(AttentionWithoutTheKernels, GivesTheSameForWindowsAndDocuments) {
  at::manual_seed(4);
  const Case c{2, 20, 4, 2, 8, 5, {3, 10, 7}};
  const Tensor query = at::randn({2, 20, 4, 8}), key = at::randn({2, 20, 2, 8}), value = at::randn({2, 20, 2, 8});
  const auto wide = [](const Tensor& x) { return x.to(at::kDouble); };
  for (const int64_t window : {int64_t{0}, c.window})
    for (const Documents& documents : {Documents(), documents_of(c)})
      EXPECT_LT(distance(causal_attention(query, key, value, window, documents),
                         causal_attention(wide(query), wide(key), wide(value), window, documents)),
                2e-6);
}

class AttentionKernels : public testing::TestWithParam<kernels::Isa> {
 protected:
  void SetUp() override {
    if (!kernels::runs(GetParam())) GTEST_SKIP() << "this processor has no such instructions";
  }
};

TEST_P(AttentionKernels, SoftmaxAndItsGradientEqualTheFormulas) {
  const float scale = 0.3F;
  for (const int64_t width : {1, 15, 16, 40})
    for (const int64_t count : {int64_t{1}, width / 2 + 1, width}) {
      at::manual_seed(width);
      Tensor products = at::randn({width}).mul_(20), d = at::randn({width});
      const Tensor x = products.to(at::kDouble).narrow(0, 0, count) * double(scale);
      const Tensor p = at::softmax(x, 0), wide_d = d.to(at::kDouble).narrow(0, 0, count);
      const Tensor expected_d = double(scale) * p * (wide_d - (p * wide_d).sum());
      Tensor again = products.clone();
      for (const Tensor& one : {products, again, d}) one.narrow(0, count, width - count).fill_(NAN);
      const auto& rows = kernels::rows<float>(GetParam());
      const float log_sum = rows.causal_softmax(kernels::out<float>(products), scale, count, width);
      rows.causal_softmax_backward(kernels::out<float>(again), kernels::out<float>(d), scale, log_sum, count, width);
      EXPECT_NEAR(log_sum, at::logsumexp(x, 0).item<double>(), 1e-5);
      EXPECT_LT(distance(products.narrow(0, 0, count), p), 2e-6);
      EXPECT_LT(distance(again, products), 2e-6) << "the softmax again, from the log-sum-exp";
      EXPECT_LT((d.narrow(0, 0, count).to(at::kDouble) - expected_d).norm().item<double>(),
                2e-6 * wide_d.norm().item<double>());
      for (const Tensor& one : {products, d})
        EXPECT_EQ(one.narrow(0, count, width - count).abs().sum().item<double>(), 0) << "keys that are not read";
    }
}

/// Output, log-sum-exps and the three gradients of one key head with two query heads, computed in two parts.
template <class T>
std::vector<Tensor> computed(kernels::Isa isa, at::ScalarType type, int64_t S, int64_t D, int64_t window) {
  const int64_t R = 2;
  at::manual_seed(5);
  const auto drawn = [&](at::IntArrayRef shape) { return at::randn(shape).to(type); };
  const Tensor q = drawn({S, R, D}), k = drawn({S, 1, D}), v = drawn({S, 1, D}), d_out = drawn({S, R, D});
  const Tensor scratch = at::empty({attention_scratch(S, D, true)});
  const auto unwritten = [](at::IntArrayRef shape) { return at::full(shape, NAN, at::kFloat); };
  std::vector<Tensor> all{unwritten({S, R, D}).to(type), unwritten({R, S}), unwritten({S, R, D}).to(type),
                          unwritten({S, 1, D}), unwritten({S, 1, D})};
  const auto in = [](const Tensor& x) { return kernels::in<T>(x); };
  const auto out = [](const Tensor& x) { return kernels::out<float>(x); };
  const auto& set = kernels::attention<T>(isa);
  const int64_t middle = S / queries_per_block / 2 * queries_per_block;
  Tensor dk = at::zeros({S, 1, D}), dv = at::zeros({S, 1, D});
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, middle}, {middle, S}}) {
    if (begin == end) continue;
    const kernels::AttentionHead head{R, D, R * D, D, begin, end, S, window};
    scratch.fill_(NAN);  // detects reads of unwritten elements
    set.forward(head, in(q), in(k), in(v), kernels::out<T>(all[0]), out(all[1]), out(scratch));
    scratch.fill_(NAN);
    set.backward(head, in(q), in(k), in(v), in(d_out), kernels::in<float>(all[1]), kernels::out<T>(all[2]), out(all[3]),
                 out(all[4]), out(scratch));
    dk.narrow(0, 0, end).add_(all[3].narrow(0, 0, end));
    dv.narrow(0, 0, end).add_(all[4].narrow(0, 0, end));
  }
  return {all[0], all[1], all[2], dk, dv};
}

TEST_P(AttentionKernels, OfEveryInstructionSetAgree) {
  const auto wanted = computed<float>(kernels::Isa::generic, at::kFloat, 130, 44, 0),
             found = computed<float>(GetParam(), at::kFloat, 130, 44, 0);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_LT(distance(found[i], wanted[i]), 2e-6) << i;
}

/// A position; part of a tile; whole tiles; features of one, two and three tiles; windows that begin within a tile.
TEST_P(AttentionKernels, OfEveryInstructionSetAgreeInBf16) {
  for (const auto& [S, D, window] : std::vector<std::array<int64_t, 3>>{
           {1, 32, 0}, {33, 64, 0}, {96, 32, 0}, {130, 96, 0}, {130, 44, 0}, {200, 64, 70}, {200, 32, 1}}) {
    const auto wanted = computed<kernels::Bf16>(kernels::Isa::generic, at::kBFloat16, S, D, window),
               found = computed<kernels::Bf16>(GetParam(), at::kBFloat16, S, D, window);
    // Shares and their gradients may be rounded by 2e-3 before they are multiplied.
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_LT(distance(found[i], wanted[i]), i == 1 ? 1e-6 : 4e-3)
          << S << " x " << D << ", window " << window << ": " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, AttentionKernels,
                         testing::Values(kernels::Isa::generic, kernels::Isa::avx2, kernels::Isa::avx512,
                                         kernels::Isa::amx));

}  // namespace
}  // namespace wmtp
