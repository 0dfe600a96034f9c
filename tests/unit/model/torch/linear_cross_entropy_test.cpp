// The chunked loss against all logits at once, differentiated by autograd in fp64, for chunks of one token, of a size
// that does not divide, and of all tokens.
#include "model/torch/linear_cross_entropy.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "memory/allocator.hpp"
#include "support/plain_store.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;
using test::PlainStore;

constexpr int64_t num_tokens = 23, dim = 6, vocab = 11;

struct Plain {
  Tensor losses, d_hidden, d_weight;
};

/// The same in fp64 with all logits.
Plain plain(const Tensor& hidden, const Tensor& weight, const Tensor& targets, const Tensor& coefficients) {
  const Tensor h = hidden.to(at::kDouble).detach().requires_grad_(true);
  const Tensor w = weight.to(at::kDouble).detach().requires_grad_(true);
  const Tensor losses = -at::log_softmax(at::matmul(h, w.t()), 1).gather(1, targets.unsqueeze(1)).squeeze(1);
  const auto gradients = torch::autograd::grad({(losses * coefficients.to(at::kDouble)).sum()}, {h, w});
  return {losses.detach(), gradients[0], gradients[1]};
}

class LinearCrossEntropyOfChunks : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    at::manual_seed(3);
    hidden_ = at::randn({num_tokens, dim});
    weight_ = at::randn({vocab, dim});
    targets_ = at::randint(vocab, {num_tokens}, at::kLong);
    dense_ = at::rand({num_tokens}) + 0.1;
    sparse_ = at::where(at::rand({num_tokens}) < 0.4, dense_, 0.0);
  }
  LinearCrossEntropy make(PlainStore& store, const Tensor& weight, bool trains = true) {
    handle_ = store.add(weight, trains);
    return {handle_, GetParam()};
  }
  static LinearCrossEntropy::Coefficients parts_of(const Tensor& all) {
    return [all](const Scores& chunk, int64_t begin) { return all.narrow(0, begin, chunk.losses.size(0)); };
  }
  Tensor hidden_, weight_, targets_, dense_, sparse_;
  WeightHandle handle_;
};

TEST_P(LinearCrossEntropyOfChunks, LossesEqualThoseOfAllLogits) {
  PlainStore store;
  const Tensor losses = make(store, weight_).scores(hidden_, targets_).losses;
  EXPECT_EQ(losses.scalar_type(), at::kFloat);
  EXPECT_LT(distance(losses, plain(hidden_, weight_, targets_, dense_).losses), 1e-6);
  EXPECT_EQ(store.writes, 0);
}

TEST_P(LinearCrossEntropyOfChunks, OnePassComputesLossesAndBothGradients) {
  PlainStore store;
  const auto result = make(store, weight_).one_pass(hidden_, targets_, parts_of(dense_), false);
  const Plain expected = plain(hidden_, weight_, targets_, dense_);
  EXPECT_LT(distance(result.scores.losses, expected.losses), 1e-6);
  EXPECT_LT(distance(result.d_hidden, expected.d_hidden), 2e-6);
  EXPECT_LT(distance(store.gradient(handle_), expected.d_weight), 2e-6);
}

TEST_P(LinearCrossEntropyOfChunks, PaddingChangesNothing) {
  const Tensor index = at::arange(1, num_tokens, 2), targets = targets_.index_select(0, index);
  const Tensor few = hidden_.index_select(0, index), padded = rows_with_padding(hidden_, index);
  ASSERT_GT(padded.size(0), few.size(0));
  EXPECT_EQ(padded.size(0) % 16, 0);
  EXPECT_TRUE(at::equal(padded.narrow(0, 0, few.size(0)), few));
  EXPECT_EQ(padded.narrow(0, few.size(0), padded.size(0) - few.size(0)).count_nonzero().item<int64_t>(), 0);
  const Tensor coefficients = sparse_.index_select(0, index);
  const Plain expected = plain(few, weight_, targets, coefficients);
  const auto expect_gradients = [&](const PlainStore& store, const Tensor& d_hidden) {
    EXPECT_EQ(d_hidden.sizes(), few.sizes());
    EXPECT_LT(distance(d_hidden, expected.d_hidden), 2e-6);
    EXPECT_LT(distance(store.gradient(handle_), expected.d_weight), 2e-6);
  };
  for (const bool sparse : {false, true}) {
    PlainStore store;
    const auto result = make(store, weight_).one_pass(padded, targets, parts_of(coefficients), sparse);
    EXPECT_EQ(result.scores.losses.sizes(), targets.sizes());
    EXPECT_LT(distance(result.scores.losses, expected.losses), 1e-6);
    expect_gradients(store, result.d_hidden);
  }
  for (const std::optional<int64_t> bound : {std::optional<int64_t>(), std::optional(few.size(0) - 1)}) {
    PlainStore store;
    const LinearCrossEntropy loss = make(store, weight_);
    ScoredChunk kept;
    EXPECT_LT(distance(loss.scores(padded, targets, {}, kept).losses, expected.losses), 1e-6);
    expect_gradients(store, loss.gradients(padded, targets, coefficients, std::move(kept), bound));
  }
}

TEST_P(LinearCrossEntropyOfChunks, CoefficientsMayDependOnTheChunksLosses) {
  PlainStore store;
  const auto result =
      make(store, weight_)
          .one_pass(
              hidden_, targets_, [](const Scores& chunk, int64_t) { return chunk.losses * 0.5; }, false);
  const Tensor losses = plain(hidden_, weight_, targets_, dense_).losses;
  EXPECT_LT(distance(result.d_hidden, plain(hidden_, weight_, targets_, losses * 0.5).d_hidden), 2e-6);
}

TEST_P(LinearCrossEntropyOfChunks, TwoPassesEqualOne) {
  PlainStore one_store, two_store;
  const auto one = make(one_store, weight_).one_pass(hidden_, targets_, parts_of(sparse_), true);
  const WeightHandle one_handle = handle_;
  const LinearCrossEntropy two = make(two_store, weight_);
  EXPECT_LT(distance(two.scores(hidden_, targets_).losses, one.scores.losses), 1e-7);
  EXPECT_LT(distance(two.gradients(hidden_, targets_, sparse_), one.d_hidden), 1e-6);
  EXPECT_LT(distance(two_store.gradient(handle_), one_store.gradient(one_handle)), 1e-6);
}

TEST_P(LinearCrossEntropyOfChunks, OnlyTokensWithWeightAreDifferentiated) {
  const int64_t kept = sparse_.count_nonzero().item<int64_t>();
  ASSERT_GT(kept, 0);
  ASSERT_LT(kept, num_tokens);
  const Plain expected = plain(hidden_, weight_, targets_, sparse_);
  PlainStore one_store, two_store;
  const auto one = make(one_store, weight_).one_pass(hidden_, targets_, parts_of(sparse_), true);
  EXPECT_LT(distance(one.scores.losses, expected.losses), 1e-6);
  EXPECT_LT(distance(one.d_hidden, expected.d_hidden), 2e-6);
  EXPECT_LT(distance(one_store.gradient(handle_), expected.d_weight), 2e-6);
  const auto filled_up = [](int64_t count, int64_t most) { return std::min((count + 15) / 16 * 16, most); };
  int64_t one_rows = 0, two_rows = 0;
  for (int64_t begin = 0; begin < num_tokens; begin += GetParam()) {
    const int64_t n = std::min(GetParam(), num_tokens - begin);
    one_rows += filled_up(sparse_.narrow(0, begin, n).count_nonzero().item<int64_t>(), n);
  }
  for (int64_t left = kept; left > 0; left -= GetParam()) two_rows += filled_up(std::min(left, GetParam()), GetParam());
  EXPECT_EQ(one_store.product_rows, one_rows);
  make(two_store, weight_).gradients(hidden_, targets_, sparse_);
  EXPECT_EQ(two_store.product_rows, two_rows);
}

TEST_P(LinearCrossEntropyOfChunks, ABoundOnTheTokensWithWeightReplacesCountingThem) {
  const Plain expected = plain(hidden_, weight_, targets_, sparse_);
  const int64_t count = sparse_.count_nonzero().item<int64_t>();
  for (const int64_t bound : {count, count + 1, num_tokens - 1, num_tokens, 2 * num_tokens})
    for (const bool keeps : {true, false}) {
      PlainStore store;
      const LinearCrossEntropy loss = make(store, weight_);
      ScoredChunk kept;
      if (keeps) loss.scores(hidden_, targets_, {}, kept);
      const Tensor d_hidden = loss.gradients(hidden_, targets_, sparse_, std::move(kept), bound);
      EXPECT_LT(distance(d_hidden, expected.d_hidden), 2e-6) << bound;
      EXPECT_LT(distance(store.gradient(handle_), expected.d_weight), 2e-6) << bound;
    }
}

TEST_P(LinearCrossEntropyOfChunks, TokensBeyondTheBoundAreLeftOut) {
  PlainStore bounded_store, fewer_store;
  const int64_t last = sparse_.nonzero().max().item<int64_t>();
  Tensor fewer = sparse_.clone();
  fewer[last] = 0;
  const int64_t bound = fewer.count_nonzero().item<int64_t>();
  const Tensor bounded = make(bounded_store, weight_).gradients(hidden_, targets_, sparse_, {}, bound);
  const WeightHandle handle = handle_;
  EXPECT_LT(distance(bounded, make(fewer_store, weight_).gradients(hidden_, targets_, fewer)), 1e-6);
  EXPECT_LT(distance(bounded_store.gradient(handle), fewer_store.gradient(handle_)), 1e-6);
}

TEST_P(LinearCrossEntropyOfChunks, NoTokenWithWeightGivesZeros) {
  const Tensor none = at::zeros({num_tokens});
  PlainStore store;
  const LinearCrossEntropy loss = make(store, weight_);
  const auto one = loss.one_pass(hidden_, targets_, parts_of(none), true);
  EXPECT_LT(distance(one.scores.losses, plain(hidden_, weight_, targets_, dense_).losses), 1e-6);
  EXPECT_TRUE(at::equal(one.d_hidden, at::zeros_like(hidden_)));
  EXPECT_TRUE(at::equal(loss.gradients(hidden_, targets_, none), at::zeros_like(hidden_)));
  EXPECT_EQ(store.gradient(handle_).abs().max().item<double>(), 0.0);
}

TEST_P(LinearCrossEntropyOfChunks, NegativeWeightsNegateGradients) {
  PlainStore store;
  const auto result = make(store, weight_).one_pass(hidden_, targets_, parts_of(dense_ - 0.6), true);
  const Plain expected = plain(hidden_, weight_, targets_, dense_ - 0.6);
  EXPECT_LT(distance(result.d_hidden, expected.d_hidden), 2e-6);
  EXPECT_LT(distance(store.gradient(handle_), expected.d_weight), 2e-6);
}

TEST_P(LinearCrossEntropyOfChunks, AFrozenOutputStillPassesTheHiddenGradient) {
  PlainStore store;
  const auto result = make(store, weight_, /*trains=*/false).one_pass(hidden_, targets_, parts_of(dense_), false);
  EXPECT_LT(distance(result.d_hidden, plain(hidden_, weight_, targets_, dense_).d_hidden), 2e-6);
  EXPECT_EQ(store.writes, 0);
}

TEST_P(LinearCrossEntropyOfChunks, LossesOfHalfPrecisionAreFp32) {
  const Tensor hidden = hidden_.to(at::kBFloat16), weight = weight_.to(at::kBFloat16);
  PlainStore store;
  const auto result = make(store, weight).one_pass(hidden, targets_, parts_of(dense_), false);
  const Plain expected = plain(hidden, weight, targets_, dense_);
  EXPECT_EQ(result.scores.losses.scalar_type(), at::kFloat);
  EXPECT_EQ(result.d_hidden.scalar_type(), at::kBFloat16);
  EXPECT_LT(distance(result.scores.losses, expected.losses), 1e-2);
  EXPECT_LT(distance(result.d_hidden, expected.d_hidden), 1e-2);
  EXPECT_LT(distance(store.gradient(handle_), expected.d_weight), 1e-2);
}

TEST_P(LinearCrossEntropyOfChunks, LargeLogitsDoNotOverflow) {
  PlainStore store;
  const auto result = make(store, weight_ * 1e3).one_pass(hidden_, targets_, parts_of(dense_), false);
  EXPECT_TRUE(at::isfinite(result.scores.losses).all().item<bool>());
  EXPECT_LT(distance(result.scores.losses, plain(hidden_, weight_ * 1e3, targets_, dense_).losses), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, LinearCrossEntropyOfChunks, testing::Values(1, 7, num_tokens, 4 * num_tokens),
                         [](const auto& info) { return std::to_string(info.param) + "Tokens"; });

TEST(LinearCrossEntropy, NeverHoldsMoreThanAChunkOfLogits) {
  install_allocator();
  const int64_t n = 2048, v = 2048, chunk = 128;
  PlainStore store;
  const LinearCrossEntropy loss(store.add(at::randn({v, 8}), /*trains=*/false), chunk);
  const Tensor hidden = at::randn({n, 8}), targets = at::randint(v, {n}, at::kLong), ones = at::ones({n});
  reset_memory_peak();
  const int64_t before = memory_usage().live_total;
  loss.scores(hidden, targets);
  loss.one_pass(
      hidden, targets, [](const Scores& chunk, int64_t) { return at::ones_like(chunk.losses); }, false);
  loss.gradients(hidden, targets, ones);
  const MemoryUsage usage = memory_usage();
  EXPECT_EQ(usage.largest_block, chunk * v * int64_t{4});
  EXPECT_LT(usage.peak_total - before, 4 * chunk * v * int64_t{4});
}

TEST(ChunkTokens, DecreaseWithTheVocabularyDownTo256) {
  EXPECT_EQ(chunk_tokens(64, /*on_cuda=*/false), 4096);
  EXPECT_EQ(chunk_tokens(4096, /*on_cuda=*/false), 1024);
  EXPECT_EQ(chunk_tokens(16'384, /*on_cuda=*/false), 256);
  EXPECT_EQ(chunk_tokens(32'000, /*on_cuda=*/false), 256);
  EXPECT_EQ(chunk_tokens(int64_t{1} << 24, /*on_cuda=*/false), 256);
  EXPECT_EQ(chunk_tokens(32'000, /*on_cuda=*/true), 4096);
}

}  // namespace
}  // namespace wmtp
