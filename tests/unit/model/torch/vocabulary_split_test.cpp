// The loss with an output layer that ranks divide, on ranks as threads, against one rank with all of it and against all
// logits in fp64. The ranks have different numbers of tokens, one of them none.
#include "model/torch/vocabulary_split.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>

#include "model/torch/linear_cross_entropy.hpp"
#include "shard/group_exchange.hpp"
#include "support/plain_store.hpp"
#include "support/ranks.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;
using test::on_ranks;
using test::PlainStore;

constexpr int64_t dim = 6, vocab = 12;
constexpr ScoreRequest everything{true, true, true, true, /*top_k=*/5, true};  // more than a quarter of the ids

struct Case {
  std::vector<int64_t> tokens;  ///< of each rank
  int64_t chunk;
};

/// This rank's part of a loss over the tokens of all ranks.
struct Part {
  LinearCrossEntropy loss;
  PlainStore& store;
  WeightHandle weight;
  Tensor hidden, targets, coefficients;
  int64_t first, count, most;

  Tensor of(const Tensor& all) const { return all.narrow(0, first, count); }
  Tensor piece(const Tensor& all) const {  // of what is like the output weight
    return all.chunk(vocab / weight.weight().size(0), 0)[size_t(rank)];
  }
  int64_t rank;
};

class DividedVocabulary : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    at::manual_seed(3);
    const auto& tokens = GetParam().tokens;
    const int64_t all = std::accumulate(tokens.begin(), tokens.end(), int64_t{0});
    hidden_ = at::randn({all, dim});
    weight_ = at::randn({vocab, dim});
    targets_ = at::randint(vocab, {all}, at::kLong);
    dense_ = at::rand({all}) + 0.1;
    sparse_ = at::where(at::rand({all}) < 0.4, dense_, 0.0);
  }
  void on_parts(const std::function<void(Part&)>& body, const Tensor& coefficients, bool trains = true) {
    const auto& tokens = GetParam().tokens;
    on_ranks(int(tokens.size()), [&](Channels& channels) {
      channels.share_sequences(1, int(tokens.size()));
      const GroupExchange ranks(channels.tensor_group(), "tokens for parts of the vocabulary");
      PlainStore store;
      const WeightHandle weight = store.add(weight_.chunk(ranks.ranks(), 0)[size_t(ranks.rank())].contiguous(), trains);
      const auto here = tokens.begin() + ranks.rank();
      Part part{{weight, GetParam().chunk, &ranks},
                store,
                weight,
                {},
                {},
                {},
                std::accumulate(tokens.begin(), here, int64_t{0}),
                *here,
                std::ranges::max(tokens),
                ranks.rank()};
      part.hidden = part.of(hidden_);
      part.targets = part.of(targets_);
      part.coefficients = part.of(coefficients);
      body(part);
    });
  }
  static LinearCrossEntropy::Coefficients parts_of(const Tensor& all) {
    return [all](const Scores& chunk, int64_t begin) { return all.narrow(0, begin, chunk.losses.size(0)); };
  }
  /// One rank's, which has all tokens and the whole output layer.
  struct Alone {
    Scores scores;
    Tensor d_hidden, d_weight;
  };
  Alone alone(const Tensor& coefficients) const {
    PlainStore store;
    const WeightHandle weight = store.add(weight_);
    const auto [scores, d_hidden] =
        LinearCrossEntropy(weight, 1000).one_pass(hidden_, targets_, parts_of(coefficients), false, everything);
    return {scores, d_hidden, store.gradient(weight)};
  }
  /// Differences of log-sum-exps of up to 20, whose last bit is 2e-6, multiplied by shares.
  static void expect_entropies(const Tensor& found, const Tensor& wanted) {
    EXPECT_TRUE(at::allclose(found.to(at::kDouble), wanted.to(at::kDouble), /*rtol=*/0, /*atol=*/4e-6));
  }
  static void expect_like(const Scores& found, const Scores& wanted, const Part& part) {
    EXPECT_LE(distance(found.losses, part.of(wanted.losses)), 1e-6);
    expect_entropies(found.entropies, part.of(wanted.entropies));
    EXPECT_TRUE(at::equal(found.hits, part.of(wanted.hits)));
    EXPECT_TRUE(at::equal(found.ranks, part.of(wanted.ranks)));
    EXPECT_LE(distance(found.margins, part.of(wanted.margins)), 1e-6);
    EXPECT_LE(distance(found.top_masses, part.of(wanted.top_masses)), 1e-6);
    EXPECT_TRUE(at::equal(found.likeliest, part.of(wanted.likeliest)));
  }
  static void expect_like(const Tensor& d_hidden, const Alone& wanted, const Part& part) {
    EXPECT_LE(distance(d_hidden, part.of(wanted.d_hidden)), 1e-6);
    EXPECT_LE(distance(part.store.gradient(part.weight), part.piece(wanted.d_weight)), 1e-6);
  }
  Tensor hidden_, weight_, targets_, dense_, sparse_;
};

TEST_P(DividedVocabulary, GivesTheScoresOfTheWholeOne) {
  weight_.mul_(3);  // some tokens are certain
  const Scores wanted = alone(dense_).scores;
  const Tensor log_p = at::log_softmax(at::linear(hidden_, weight_).to(at::kDouble), 1);
  on_parts(
      [&](Part& part) {
        const Scores found = part.loss.scores(part.hidden, part.targets, everything, part.most);
        expect_like(found, wanted, part);
        const Tensor own = part.of(log_p);
        EXPECT_LE(distance(found.losses, -own.gather(1, part.targets.unsqueeze(1)).squeeze(1)), 1e-6);
        expect_entropies(found.entropies, -(own.exp() * own).sum(1));
        EXPECT_EQ(part.store.writes, 0);
        const Scores losses = part.loss.scores(part.hidden, part.targets, {}, part.most);
        EXPECT_TRUE(at::equal(losses.losses, found.losses));
        EXPECT_FALSE(losses.entropies.defined() || losses.hits.defined());
      },
      dense_);
}

TEST_P(DividedVocabulary, CountsATargetAmongTheHighestWhereverTheOthersAre) {
  // Columns 1, 5 and 9 are alike, so their logits are equal and the highest: of two or four ranks, on different ones.
  weight_.select(0, 1).mul_(3);
  weight_.select(0, 5).copy_(weight_.select(0, 1));
  weight_.select(0, 9).copy_(weight_.select(0, 1));
  hidden_.copy_(weight_.select(0, 1).expand({hidden_.size(0), dim}));
  targets_ = at::arange(hidden_.size(0), at::kLong) * 5 % vocab;
  const Tensor wanted = alone(dense_).scores.hits;
  ASSERT_TRUE(at::equal(wanted, targets_.remainder(4).eq(1).to(at::kFloat)));
  on_parts(
      [&](Part& part) {
        const Scores found = part.loss.scores(part.hidden, part.targets, everything, part.most);
        EXPECT_TRUE(at::equal(found.hits, part.of(wanted)));
        EXPECT_TRUE(at::equal(found.likeliest, at::ones_like(found.likeliest))) << "the first of equal ones";
      },
      dense_);
}

TEST_P(DividedVocabulary, GivesTheGradientsOfTheWholeOneInOnePass) {
  for (const bool sparse : {false, true}) {
    const Tensor& coefficients = sparse ? sparse_ : dense_;
    const Alone wanted = alone(coefficients);
    on_parts(
        [&](Part& part) {
          const auto [scores, d_hidden] =
              part.loss.one_pass(part.hidden, part.targets, parts_of(part.coefficients), sparse, everything, part.most);
          expect_like(scores, wanted.scores, part);
          expect_like(d_hidden, wanted, part);
        },
        coefficients);
  }
}

TEST_P(DividedVocabulary, AsksForTheCoefficientsOfARanksOwnTokensAndTheirScores) {
  const Alone wanted = alone(at::exp(-alone(dense_).scores.losses));
  on_parts(
      [&](Part& part) {
        int64_t asked = 0;
        const auto of_losses = [&](const Scores& chunk, int64_t begin) {
          EXPECT_EQ(begin, asked);
          EXPECT_GT(chunk.losses.size(0), 0);
          asked += chunk.losses.size(0);
          return at::exp(-chunk.losses);
        };
        const Tensor d_hidden = part.loss.one_pass(part.hidden, part.targets, of_losses, false, {}, part.most).d_hidden;
        EXPECT_EQ(asked, part.count);
        expect_like(d_hidden, wanted, part);
      },
      dense_);
}

TEST_P(DividedVocabulary, GivesGradientsOfSelectedTokensAfterTheirScores) {
  for (const Tensor& coefficients : {dense_, sparse_, at::zeros_like(dense_)}) {
    const Alone wanted = alone(coefficients);
    const int64_t selected = coefficients.count_nonzero().item<int64_t>(), most_in_one = GetParam().chunk;
    on_parts(
        [&](Part& part) {
          ScoredChunk kept;
          expect_like(part.loss.scores(part.hidden, part.targets, everything, kept, part.most), wanted.scores, part);
          expect_like(part.loss.gradients(part.hidden, part.targets, part.coefficients, std::move(kept)), wanted, part);
          const bool is_one_chunk = most_in_one >= int64_t(GetParam().tokens.size()) * part.most;
          if (is_one_chunk) {
            EXPECT_LE(part.store.product_rows, (selected + 15) / 16 * 16) << "tokens without a weight are skipped";
          }
          EXPECT_EQ(part.store.writes > 0, selected > 0);
        },
        coefficients);
    on_parts(
        [&](Part& part) {
          expect_like(part.loss.gradients(part.hidden, part.targets, part.coefficients), wanted, part);
        },
        coefficients);
  }
}

TEST_P(DividedVocabulary, OfAFrozenOutputLayerPassesTheHiddenGradientOn) {
  const Alone wanted = alone(dense_);
  on_parts(
      [&](Part& part) {
        const auto result =
            part.loss.one_pass(part.hidden, part.targets, parts_of(part.coefficients), false, {}, part.most);
        EXPECT_LE(distance(result.d_hidden, part.of(wanted.d_hidden)), 1e-6);
        EXPECT_EQ(part.store.writes, 0);
      },
      dense_, /*trains=*/false);
}

TEST_P(DividedVocabulary, RoundsEachRanksPartOfAGradientOnceIn16Bits) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    hidden_ = hidden_.to(type);
    weight_ = weight_.to(type);
    const Alone wanted = alone(dense_);
    const double rounding = type == at::kHalf ? 1.0 / 2048 : 1.0 / 256;
    on_parts(
        [&](Part& part) {
          const auto [scores, d_hidden] =
              part.loss.one_pass(part.hidden, part.targets, parts_of(part.coefficients), false, everything, part.most);
          EXPECT_EQ(scores.losses.scalar_type(), at::kFloat);
          EXPECT_EQ(d_hidden.scalar_type(), type);
          EXPECT_LE(distance(scores.losses, part.of(wanted.scores.losses)), 1e-6) << "logits are the same";
          expect_entropies(scores.entropies, part.of(wanted.scores.entropies));
          EXPECT_TRUE(at::equal(scores.hits, part.of(wanted.scores.hits)));
          EXPECT_LE(distance(d_hidden, part.of(wanted.d_hidden)), 3 * rounding);
          EXPECT_LE(distance(part.store.gradient(part.weight), part.piece(wanted.d_weight)), 2 * rounding);
        },
        dense_);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DividedVocabulary,
                         testing::Values(Case{{7, 3}, 4}, Case{{7, 3}, 1000}, Case{{0, 5}, 3}, Case{{5, 0, 9, 2}, 8},
                                         Case{{5, 0, 9, 2}, 1000}),
                         [](const auto& info) {
                           return std::to_string(info.param.tokens.size()) + "RanksFrom" +
                                  std::to_string(info.param.tokens.front()) + "TokensInChunksOf" +
                                  std::to_string(info.param.chunk);
                         });

TEST(VocabularySplit, IsAskedWithTheNumberOfTokensThatItsRanksHaveAtMost) {
  on_ranks(2, [](Channels& channels) {
    channels.share_sequences(1, 2);
    const GroupExchange ranks(channels.tensor_group(), "tokens");
    PlainStore store;
    const LinearCrossEntropy loss(store.add(at::randn({vocab / 2, dim})), 8, &ranks);
    EXPECT_THROW(loss.scores(at::randn({3, dim}), at::zeros({3}, at::kLong), {}, 2), c10::Error);
  });
}

}  // namespace
}  // namespace wmtp
