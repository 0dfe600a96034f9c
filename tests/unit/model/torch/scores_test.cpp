// The weighted loss's scores of each token against ATen in fp64, by the row kernels and by ATen (fp16 has no
// kernel); and that gradients of scored tokens compute nothing twice.
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <cmath>

#include "memory/allocator.hpp"
#include "model/torch/linear_cross_entropy.hpp"
#include "support/plain_store.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;
using test::PlainStore;

constexpr ScoreRequest everything{true, true, true, true, /*top_k=*/4, true};
constexpr int64_t num_tokens = 23, dim = 6, vocab = 11;

Scores in_double(const Tensor& logits, const Tensor& targets) {
  const Tensor log_p = at::log_softmax(logits.to(at::kDouble), 1);
  const Tensor of_target = logits.gather(1, targets.unsqueeze(1)).squeeze(1);
  const Tensor others = logits.to(at::kDouble).scatter(1, targets.unsqueeze(1), -INFINITY);
  return {-log_p.gather(1, targets.unsqueeze(1)).squeeze(1),
          -(log_p.exp() * log_p).sum(1),
          of_target.eq(logits.amax(1)).to(at::kDouble),
          logits.gt(of_target.unsqueeze(1)).sum(1).to(at::kDouble),
          of_target.to(at::kDouble) - others.amax(1),
          std::get<0>(log_p.exp().topk(std::min<int64_t>(everything.top_k, logits.size(1)))).sum(1),
          logits.argmax(1).to(at::kDouble)};
}

void expect_near(const Scores& given, const Scores& expected, double tolerance) {
  for (const auto& [a, b] : {std::pair{given.losses, expected.losses}, {given.entropies, expected.entropies}}) {
    EXPECT_EQ(a.scalar_type(), at::kFloat);
    EXPECT_LT((a - b).abs().max().item<double>(), tolerance);
  }
  EXPECT_EQ(given.hits.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(given.hits.to(at::kDouble), expected.hits));
  EXPECT_EQ(given.ranks.scalar_type(), at::kFloat);
  const bool is_exact = tolerance < 1e-3;  // else logits are so coarse that their rounding decides about neighbours
  EXPECT_LE((given.ranks - expected.ranks).abs().max().item<double>(), is_exact ? 0 : 1);
  EXPECT_EQ(given.margins.scalar_type(), at::kFloat);
  EXPECT_LT((given.margins - expected.margins).abs().max().item<double>(), 3 * tolerance);
  EXPECT_EQ(given.top_masses.scalar_type(), at::kFloat);
  EXPECT_LT((given.top_masses - expected.top_masses).abs().max().item<double>(), tolerance);
  EXPECT_EQ(given.likeliest.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(given.likeliest.to(at::kDouble), expected.likeliest));
}

struct Case {
  at::ScalarType type;
  int64_t chunk;
};

class ScoresOfTokens : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    at::manual_seed(3);
    hidden_ = at::randn({num_tokens, dim}).to(GetParam().type);
    weight_ = at::randn({vocab, dim}).to(GetParam().type);
    targets_ = at::randint(vocab, {num_tokens}, at::kLong);
  }
  LinearCrossEntropy make(PlainStore& store) { return {store.add(weight_), GetParam().chunk}; }
  Scores expected() const { return in_double(at::linear(hidden_, weight_), targets_); }
  Tensor hidden_, weight_, targets_;
};

TEST_P(ScoresOfTokens, EqualThoseOfAllLogits) {
  PlainStore store;
  const Scores scores = make(store).scores(hidden_, targets_, everything);
  expect_near(scores, expected(), GetParam().type == at::kFloat ? 1e-5 : 5e-2);
  EXPECT_EQ(store.writes, 0);
}

TEST_P(ScoresOfTokens, AreTheSameInOnePass) {
  PlainStore store;
  const LinearCrossEntropy loss = make(store);
  std::vector<Tensor> entropies, hits;
  const auto result = loss.one_pass(
      hidden_, targets_,
      [&](const Scores& chunk, int64_t begin) {
        EXPECT_EQ(begin, int64_t(entropies.size()) * GetParam().chunk);
        entropies.push_back(chunk.entropies);
        hits.push_back(chunk.hits);
        return at::ones_like(chunk.losses);
      },
      false, everything);
  const Scores alone = loss.scores(hidden_, targets_, everything);
  EXPECT_TRUE(at::equal(result.scores.losses, alone.losses));
  EXPECT_TRUE(at::equal(result.scores.entropies, alone.entropies));
  EXPECT_TRUE(at::equal(result.scores.hits, alone.hits));
  EXPECT_TRUE(at::equal(result.scores.ranks, alone.ranks));
  EXPECT_TRUE(at::equal(result.scores.margins, alone.margins));
  EXPECT_TRUE(at::equal(result.scores.top_masses, alone.top_masses));
  EXPECT_TRUE(at::equal(result.scores.likeliest, alone.likeliest));
  EXPECT_TRUE(at::equal(at::cat(entropies), alone.entropies));
  EXPECT_TRUE(at::equal(at::cat(hits), alone.hits));
}

TEST_P(ScoresOfTokens, AreUndefinedUnlessRequested) {
  PlainStore store;
  const LinearCrossEntropy loss = make(store);
  const Scores none = loss.scores(hidden_, targets_);
  EXPECT_FALSE(none.entropies.defined() || none.hits.defined() || none.ranks.defined() || none.margins.defined() ||
               none.top_masses.defined() || none.likeliest.defined());
  const Scores hits = loss.scores(hidden_, targets_, {.hits = true});
  EXPECT_FALSE(hits.entropies.defined());
  EXPECT_TRUE(at::equal(hits.hits.to(at::kDouble), expected().hits));
}

TEST_P(ScoresOfTokens, KeepWhatGradientsNeed) {
  const Tensor drawn = at::rand({num_tokens});
  for (const Tensor& coefficients : {drawn, at::where(drawn < 0.5, drawn, 0.0), at::zeros({num_tokens})}) {
    PlainStore fresh_store, kept_store;
    const LinearCrossEntropy fresh = make(fresh_store), loss = make(kept_store);
    ScoredChunk kept;
    loss.scores(hidden_, targets_, {}, kept);
    const Tensor given = loss.gradients(hidden_, targets_, coefficients, std::move(kept));
    const double tolerance = GetParam().type == at::kFloat ? 1e-6 : 2e-2;
    EXPECT_LT(distance(given, fresh.gradients(hidden_, targets_, coefficients)), tolerance);
    EXPECT_LT(distance(kept_store.gradient({&kept_store, 0}), fresh_store.gradient({&fresh_store, 0})), tolerance);
    const int64_t wanted = coefficients.count_nonzero().item<int64_t>();
    const int64_t most = std::min(GetParam().chunk, num_tokens);
    int64_t rows = 0;
    for (int64_t left = wanted; left > 0; left -= most) rows += std::min((std::min(left, most) + 15) / 16 * 16, most);
    EXPECT_EQ(kept_store.product_rows, rows);
  }
}

TEST_P(ScoresOfTokens, OfOneTokenVocabulariesAreCertain) {
  weight_ = weight_.narrow(0, 0, 1).contiguous();
  targets_.zero_();
  PlainStore store;
  const Scores scores = make(store).scores(hidden_, targets_, everything);
  EXPECT_TRUE(at::equal(scores.losses, at::zeros({num_tokens})));
  EXPECT_TRUE(at::equal(scores.entropies, at::zeros({num_tokens})));
  EXPECT_TRUE(at::equal(scores.hits, at::ones({num_tokens})));
  EXPECT_TRUE(at::equal(scores.top_masses, at::ones({num_tokens}))) << "all tokens are fewer than top_k";
}

TEST_P(ScoresOfTokens, OfNoTokensAreEmpty) {
  PlainStore store;
  const LinearCrossEntropy loss = make(store);
  ScoredChunk kept;
  const Scores scores = loss.scores(hidden_.narrow(0, 0, 0), targets_.narrow(0, 0, 0), everything, kept);
  EXPECT_EQ(scores.losses.numel() + scores.entropies.numel() + scores.hits.numel(), 0);
  EXPECT_EQ(loss.gradients(hidden_.narrow(0, 0, 0), targets_.narrow(0, 0, 0), at::zeros({0}), std::move(kept)).numel(),
            0);
}

TEST_P(ScoresOfTokens, SurviveHugeLogits) {
  weight_ = weight_ * 1e3;
  PlainStore store;
  const Scores scores = make(store).scores(hidden_, targets_, everything);
  const Tensor logits = at::linear(hidden_, weight_);
  ASSERT_GT(logits.abs().max().item<double>(), 1e3);
  const Scores expected = in_double(logits, targets_);
  EXPECT_LT(distance(scores.losses, expected.losses), 1e-2);
  EXPECT_LT((scores.entropies - expected.entropies).abs().max().item<double>(), 1e-2);
  EXPECT_TRUE(at::equal(scores.hits.to(at::kDouble), expected.hits));
  EXPECT_LE(scores.top_masses.max().item<float>(), 1.0F);
}

INSTANTIATE_TEST_SUITE_P(All, ScoresOfTokens,
                         testing::Values(Case{at::kFloat, 7}, Case{at::kFloat, num_tokens}, Case{at::kBFloat16, 7},
                                         Case{at::kBFloat16, num_tokens}, Case{at::kHalf, 7},
                                         Case{at::kHalf, num_tokens}),
                         [](const auto& info) {
                           return at::toString(info.param.type) + std::to_string(info.param.chunk) + "Tokens";
                         });

int products = 0;

/// Products in scores and gradients, if the selected tokens fit in one chunk.
int products_for_logits(int64_t chunk, int64_t wanted) {
  PlainStore store;
  const LinearCrossEntropy loss(store.add(at::randn({vocab, dim})), chunk);
  const Tensor hidden = at::randn({num_tokens, dim}), targets = at::randint(vocab, {num_tokens}, at::kLong);
  const Tensor coefficients = at::arange(num_tokens).lt(wanted).to(at::kFloat);
  products = 0;
  const auto counter = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        products += std::string(function.name()) == "aten::mm";
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  ScoredChunk kept;
  loss.scores(hidden, targets, {}, kept);
  loss.gradients(hidden, targets, coefficients, std::move(kept));
  at::removeCallback(counter);
  return products - 2;  // one for the weight's gradient, one for the hidden states'
}

TEST(ScoredChunk, SavesTheSecondProductWhereAllTokensFit) {
  EXPECT_EQ(products_for_logits(num_tokens, 10), 1);
  EXPECT_EQ(products_for_logits(4 * num_tokens, num_tokens), 1);
  EXPECT_EQ(products_for_logits(num_tokens - 1, 10), 3) << "two chunks scored, one of selected tokens again";
}

TEST(ScoredChunk, IsOneChunkOfLogits) {
  install_allocator();
  const int64_t n = 128, v = 2048;
  PlainStore store;
  const LinearCrossEntropy loss(store.add(at::randn({v, 8}), /*trains=*/false), n);
  const Tensor hidden = at::randn({n, 8}), targets = at::randint(v, {n}, at::kLong);
  const Tensor some = at::rand({n}).lt(0.6).to(at::kFloat);
  reset_memory_peak();
  const int64_t before = memory_usage().live_total;
  {
    ScoredChunk kept;
    const Scores scores = loss.scores(hidden, targets, everything, kept);
    EXPECT_LT(memory_usage().live_total - before, n * v * int64_t{4} * 11 / 10);
    loss.gradients(hidden, targets, some, std::move(kept));
  }
  const MemoryUsage usage = memory_usage();
  EXPECT_EQ(usage.live_total, before);
  EXPECT_EQ(usage.largest_block, n * v * int64_t{4});
  EXPECT_LT(usage.peak_total - before, 2 * n * v * int64_t{4});
}

}  // namespace
}  // namespace wmtp
