#include "step/head_products.hpp"

#include <gtest/gtest.h>

#include "support/ranks.hpp"

namespace wmtp {
namespace {

using test::on_ranks;

/// Small integers, whose products have exact sums.
at::Tensor gradient(int64_t positions, int64_t seed, at::ScalarType type = at::kFloat) {
  return at::arange(positions * 8, at::kLong).mul(seed).remainder(13).sub(6).to(type).view({1, positions, 8});
}

double product(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) * b.to(at::kDouble)).sum().item<double>();
}

TEST(HeadProducts, AreNormsAndCosinesOverAllPositionsAndRanks) {
  constexpr int64_t positions = (int64_t{1} << 15) + 7;  // more than are in fp64 at a time
  const std::vector<at::Tensor> all{gradient(2 * positions, 3), gradient(2 * positions, 5), gradient(2 * positions, 7)};
  on_ranks(2, [&](Channels& channels) {
    StepTotals totals;
    add_empty_head_products(3, totals);
    std::vector<at::Tensor> mine;
    for (const at::Tensor& one : all) mine.push_back(one.narrow(1, channels.rank() * positions, positions));
    add_head_products(mine, totals);
    totals.exchange(channels);
    const auto metrics = head_metrics(3, totals, /*scale=*/4);
    ASSERT_EQ(metrics.size(), 3u + 3u);
    for (size_t k = 0; k < 3; ++k) {
      const double square = product(all[k], all[k]);
      EXPECT_EQ(metrics.at("heads/norm_" + std::to_string(k + 1)), std::sqrt(square) / 4);
      for (size_t j = 0; j < k; ++j)
        EXPECT_DOUBLE_EQ(metrics.at("heads/cosine_" + std::to_string(j + 1) + "_" + std::to_string(k + 1)),
                         product(all[j], all[k]) / std::sqrt(product(all[j], all[j]) * square));
    }
  });
}

TEST(HeadProducts, OfAHeadWithoutAGradientAreZeroAndItHasNoCosine) {
  SingleRank rank;
  StepTotals totals;
  add_empty_head_products(3, totals);
  const at::Tensor one = gradient(5, 3, at::kBFloat16);
  for (int micro = 0; micro < 2; ++micro) add_head_products({one, {}, -one}, totals);
  totals.exchange(rank.channels);
  const double norm = std::sqrt(2 * product(one, one));
  const std::map<std::string, double> wanted{
      {"heads/norm_1", norm}, {"heads/norm_2", 0.0}, {"heads/norm_3", norm}, {"heads/cosine_1_3", -1.0}};
  const auto found = head_metrics(3, totals, 1);
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, value] : wanted) EXPECT_DOUBLE_EQ(found.at(name), value) << name;
}

TEST(HeadProducts, AreNoMetricsOfAStepThatHasNone) {
  SingleRank rank;
  StepTotals totals;
  totals.add("loss", 1.0);
  totals.exchange(rank.channels);
  EXPECT_TRUE(head_metrics(2, totals, 1).empty());
}

}  // namespace
}  // namespace wmtp
