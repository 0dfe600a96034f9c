#include "step/rank_collectives.hpp"

#include <gtest/gtest.h>

#include "support/ranks.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::on_ranks;

Tensor numbers(const std::vector<float>& values) { return at::tensor(values); }
Tensor all_of(const Tensor& values) { return at::ones_like(values, at::kBool); }

class QuantileHere : public testing::Test {
 protected:
  float of(const std::vector<float>& values, double q) {
    return across_.quantile_here(numbers(values), all_of(numbers(values)), q).item<float>();
  }
  SingleRank rank_;
  RankCollectives across_{rank_.channels};
};

TEST_F(QuantileHere, InterpolatesLinearlyLikeTorch) {
  EXPECT_FLOAT_EQ(of({4, 1, 3, 2}, 0.5), 2.5F);
  EXPECT_FLOAT_EQ(of({4, 1, 3, 2}, 0.25), 1.75F);
  EXPECT_FLOAT_EQ(of({10, 0}, 0.4), 4.0F);
  EXPECT_FLOAT_EQ(of({-1, 5, 2, 8, 0}, 0.4), 1.2F);  // place 1.6 between 0 and 2
}

TEST_F(QuantileHere, IsTheSmallestAtZeroAndTheLargestAtOne) {
  EXPECT_EQ(of({3, -7, 5}, 0.0), -7.0F);
  EXPECT_EQ(of({3, -7, 5}, 1.0), 5.0F);
}

TEST_F(QuantileHere, OfEqualValuesIsThatValue) {
  EXPECT_EQ(of({2, 2, 2, 2}, 0.37), 2.0F);
  EXPECT_EQ(of({1, 2, 2, 2, 3}, 0.5), 2.0F);
  EXPECT_EQ(of({1, 2, 2, 2, 3}, 0.25), 2.0F);
}

TEST_F(QuantileHere, OfOneElementIsThatElement) {
  for (const double q : {0.0, 0.4, 1.0}) EXPECT_EQ(of({1.25F}, q), 1.25F);
}

TEST_F(QuantileHere, UsesOnlyValidElements) {
  const Tensor values = numbers({100, 1, 2, -100, 3, 4}).view({2, 3});
  const Tensor valid = at::tensor(std::vector<int64_t>{0, 1, 1, 0, 1, 1}).to(at::kBool).view({2, 3});
  EXPECT_FLOAT_EQ(across_.quantile_here(values, valid, 0.5).item<float>(), 2.5F);
  EXPECT_FLOAT_EQ(across_.quantile_here(values, valid, 1.0).item<float>(), 4.0F);
}

TEST_F(QuantileHere, WithoutAValidElementIsNan) {
  const Tensor values = numbers({1, 2, 3});
  EXPECT_TRUE(std::isnan(across_.quantile_here(values, at::zeros_like(values, at::kBool), 0.5).item<float>()));
  EXPECT_TRUE(std::isnan(across_.quantile(values, at::zeros_like(values, at::kBool), 0.5).item<float>()));
}

TEST_F(QuantileHere, EqualsTorchsQuantileBitForBit) {
  at::manual_seed(1);
  for (const int64_t n : {1, 2, 10, 101, 1000, 4096})
    for (const double q : {0.0, 0.1, 0.4, 0.5, 0.9, 1.0}) {
      const Tensor values = at::randn({n});
      const Tensor found = across_.quantile_here(values, all_of(values), q);
      EXPECT_EQ(found.scalar_type(), at::kFloat);
      EXPECT_EQ(found.dim(), 0);
      EXPECT_EQ(found.item<float>(), at::quantile(values, q).item<float>()) << n << " elements, q = " << q;
    }
}

TEST(RankCollectives, QuantileCoversTheElementsOfAllRanks) {
  on_ranks(3, [](Channels& channels) {
    RankCollectives across(channels);
    const Tensor mine = at::arange(4, at::kFloat) + 10 * channels.rank();
    const Tensor valid = channels.rank() == 1 ? at::zeros({4}, at::kBool) : at::ones({4}, at::kBool);
    // valid anywhere: 0 1 2 3 20 21 22 23
    EXPECT_FLOAT_EQ(across.quantile(mine, valid, 0.5).item<float>(), 11.5F);
    EXPECT_FLOAT_EQ(across.quantile(mine, valid, 1.0).item<float>(), 23.0F);
    const float here = across.quantile_here(mine, valid, 0.5).item<float>();
    if (channels.rank() == 1)
      EXPECT_TRUE(std::isnan(here));
    else
      EXPECT_FLOAT_EQ(here, 1.5F + 10.0F * float(channels.rank()));
  });
}

TEST(RankCollectives, SumHasTheSameBitsOnAllRanksInAnyShape) {
  Tensor of_rank0;
  on_ranks(3, [&](Channels& channels) {
    RankCollectives across(channels);
    const Tensor mine = at::full({2, 3}, 0.1 * (channels.rank() + 1));
    const Tensor sum = across.sum(mine);
    EXPECT_TRUE(at::allclose(sum, at::full({2, 3}, 0.6)));
    const Tensor all = channels.all_gather(sum, "comparing");
    for (int rank = 1; rank < 3; ++rank) EXPECT_TRUE(at::equal(all[rank], all[0]));
  });
}

TEST(RankCollectives, ADifferentCallIsRefusedNamingTheRank) {
  for (const bool other_kind : {false, true})
    on_ranks(2, [&](Channels& channels) {
      RankCollectives across(channels);
      const Tensor values = at::ones({other_kind || channels.rank() == 0 ? 4 : 5});
      const std::string text = test::refusal(ExitStatus::plugin, [&] {
        if (other_kind && channels.rank() == 1)
          across.sum(values);
        else
          across.quantile(values, at::ones_like(values, at::kBool), 0.5);
      });
      EXPECT_SAYS(text, "rank 0") << "told to rank " << channels.rank();
      EXPECT_SAYS(text, "rank 1") << "told to rank " << channels.rank();
    });
}

TEST(RankCollectives, OneRankNeedsNoCommunication) {
  SingleRank rank;
  RankCollectives across(rank.channels);
  const Tensor values = numbers({1, 2, 3});
  EXPECT_TRUE(at::equal(across.sum(values), values));
  EXPECT_EQ(across.quantile(values, all_of(values), 0.5).item<float>(), 2.0F);
}

}  // namespace
}  // namespace wmtp
