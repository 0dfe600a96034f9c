// Kinds of tokens, and the edges of shares and overlaps; tests/parity/weighing_test.py has their numbers.
#include "evaluate/weight_shares.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace wmtp {
namespace {

constexpr float none = std::numeric_limits<float>::quiet_NaN();

WeighedTokens tokens_with(std::vector<float> weights) {
  WeighedTokens tokens;
  for (size_t i = 0; i < weights.size(); ++i) {
    tokens.sequence.push_back(0);
    tokens.position.push_back(int64_t(i));
    tokens.token.push_back(1);
    tokens.text.emplace_back();
    tokens.loss.push_back(1);
  }
  tokens.weight = std::move(weights);
  return tokens;
}

TEST(WeightShares, KindIsOfTheFirstCharacterThatIsNoSpace) {
  EXPECT_EQ(text_kind_of(" the", "saw"), TokenTextKind::word_start);
  EXPECT_EQ(text_kind_of("the", ""), TokenTextKind::word_start);
  EXPECT_EQ(text_kind_of("x", "("), TokenTextKind::word_start);
  EXPECT_EQ(text_kind_of("ing", "go"), TokenTextKind::inside_word);
  EXPECT_EQ(text_kind_of("_x", "a1"), TokenTextKind::inside_word);
  EXPECT_EQ(text_kind_of("\xc3\xa9", "caf"), TokenTextKind::inside_word);
  EXPECT_EQ(text_kind_of(" 12", "a"), TokenTextKind::digits);
  EXPECT_EQ(text_kind_of("):", "x"), TokenTextKind::punctuation);
  EXPECT_EQ(text_kind_of("\n    ", ":"), TokenTextKind::white_space);
  EXPECT_EQ(text_kind_of("", "x"), TokenTextKind::special);
}

TEST(WeightShares, WithoutWeightThereIsNoShareOfIt) {
  const WeightShare all = weight_shares(tokens_with({none, 0, 0})).front();
  EXPECT_EQ(all.tokens, 2);
  EXPECT_EQ(all.zero_share, 1);
  EXPECT_FALSE(all.weight_share || all.effective_share || all.weighted_loss);
}

TEST(WeightShares, WithoutZerosThereIsNoLossOfThem) {
  const WeightShare all = weight_shares(tokens_with({none, 2, 2})).front();
  EXPECT_EQ(all.effective_share, 1);
  EXPECT_FALSE(all.zero_loss);
}

TEST(WeightShares, AreOfTheSizesOfSignedWeights) {
  const WeightShare all = weight_shares(tokens_with({none, 2, -2})).front();
  EXPECT_EQ(all.weight_share, 1);
  EXPECT_EQ(all.effective_share, 1);
  EXPECT_EQ(all.weighted_loss, all.loss);
}

TEST(WeightShares, OverlapIsUndefinedForNegativeAndForEqualWeights) {
  const WeightOverlap negative = weight_overlaps(tokens_with({none, 1, -1, 3}), tokens_with({none, 1, 2, 3})).front();
  EXPECT_FALSE(negative.common);
  EXPECT_DOUBLE_EQ(*negative.rank_correlation, 0.5);
  const WeightOverlap equal = weight_overlaps(tokens_with({none, 1, 1}), tokens_with({none, 1, 3})).front();
  EXPECT_DOUBLE_EQ(*equal.common, 0.75);
  EXPECT_FALSE(equal.rank_correlation);
}

TEST(WeightShares, ATokenOfOneWeightingOnlyHasWeightZeroInTheOther) {
  const WeightOverlap overlap = weight_overlaps(tokens_with({none, none, 4}), tokens_with({none, 1, 1})).front();
  EXPECT_DOUBLE_EQ(*overlap.common, 0.5);
}

}  // namespace
}  // namespace wmtp
