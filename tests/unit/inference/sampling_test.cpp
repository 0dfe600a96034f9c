// The distribution of drawn tokens, their nucleus and the independence of draws.
#include "inference/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "support/poisoned_memory.hpp"

namespace wmtp {
namespace {

using at::Tensor;

constexpr int64_t num_draws = 20000;
constexpr double most_at_7_degrees = 24.3;  // chi-square; exceeded by chance with probability 0.001

const Tensor& logits() {
  static const Tensor made = at::tensor({0.5f, -1.0f, 2.0f, 1.5f, 0.0f, -0.5f, 1.0f, -2.0f});
  return made;
}

std::vector<double> shares_at(double temperature) {
  const Tensor shares = (logits().to(at::kDouble) / temperature).softmax(0);
  return {shares.const_data_ptr<double>(), shares.const_data_ptr<double>() + shares.numel()};
}

std::vector<double> counts_of(const std::function<int64_t(int64_t)>& one) {
  std::vector<double> counts(8);
  for (int64_t i = 0; i < num_draws; ++i) counts[size_t(one(i))] += 1;
  return counts;
}

double chi_square(const std::vector<double>& counts, const std::vector<double>& shares) {
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    sum += std::pow(counts[i] - num_draws * shares[i], 2) / (num_draws * shares[i]);
  return sum;
}

TEST(Sampling, DrawsFollowTheSoftmaxOverPositionsAndOverSeeds) {
  for (const double temperature : {0.7, 1.0, 2.0}) {
    const auto over_positions = counts_of([&](int64_t i) { return draw(logits(), {temperature, 1.0, 11}, i); });
    const auto over_seeds = counts_of([&](int64_t i) { return draw(logits(), {temperature, 1.0, uint64_t(i)}, 11); });
    EXPECT_LT(chi_square(over_positions, shares_at(temperature)), most_at_7_degrees) << temperature;
    EXPECT_LT(chi_square(over_seeds, shares_at(temperature)), most_at_7_degrees) << temperature;
    EXPECT_GT(chi_square(over_positions, shares_at(1.2 * temperature)), most_at_7_degrees)
        << "the test would not detect a wrong temperature";
  }
}

std::vector<int64_t> text_of(const Sampling& sampling) {
  std::vector<int64_t> ids;
  for (int64_t position = 0; position < 2000; ++position) ids.push_back(draw(logits(), sampling, position));
  return ids;
}

double share_in_common(const std::vector<int64_t>& one, const std::vector<int64_t>& other) {
  double same = 0;
  for (size_t i = 0; i < one.size(); ++i) same += one[i] == other[i];
  return same / double(one.size());
}

TEST(Sampling, SeedsPromptsAndSamplesAreIndependentAndReproducible) {
  const auto shares = shares_at(1.0);
  double by_chance = 0;
  for (const double share : shares) by_chance += share * share;
  std::vector<std::vector<int64_t>> texts;
  for (const uint64_t seed : {0, 1})
    for (const uint32_t prompt : {0, 1})
      for (const uint32_t sample : {0, 1}) texts.push_back(text_of({1.0, 1.0, seed, prompt, sample}));
  for (size_t i = 0; i < texts.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NEAR(share_in_common(texts[i], texts[j]), by_chance, 0.05) << i << " " << j;
  EXPECT_EQ(texts[0], text_of({1.0, 1.0, 0, 0, 0}));
}

TEST(Sampling, ALowTemperatureIsGreedy) {
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(draw(logits(), {1e-6, 1.0, 3}, i), 2);
}

TEST(Nucleus, IsTheSmallestSetOfLikelyTokensThatReachesTopP) {
  // Shares at temperature 1, most likely first: ids 2, 3, 6, 0, 4, 5, 1, 7.
  const auto shares = shares_at(1.0);
  const double two = shares[2] + shares[3];
  const auto ids_of = [](double top_p) {
    std::vector<int64_t> ids;
    for (const Candidate& one : nucleus(logits(), 1.0, top_p)) ids.push_back(one.id);
    return ids;
  };
  EXPECT_EQ(ids_of(1e-9), (std::vector<int64_t>{2}));
  EXPECT_EQ(ids_of(two - 1e-6), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(ids_of(two + 1e-6), (std::vector<int64_t>{2, 3, 6}));
  EXPECT_EQ(ids_of(1.0), (std::vector<int64_t>{2, 3, 6, 0, 4, 5, 1, 7}));

  const auto cut = nucleus(logits(), 1.0, two - 1e-6);
  EXPECT_NEAR(cut[0].probability, shares[2] / two, 1e-9);
  EXPECT_NEAR(cut[0].probability + cut[1].probability, 1, 1e-12);
}

TEST(Nucleus, TakesTheLowestIdsOfEquallyLikelyTokens) {
  const auto cut = nucleus(at::tensor({1.0f, 2.0f, 2.0f, 2.0f}), 1.0, 0.5);
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_EQ(cut[0].id, 1);
  EXPECT_EQ(cut[1].id, 2);
}

TEST(Sampling, DrawsNothingOutsideTheNucleus) {
  const auto shares = shares_at(1.0);
  std::set<int64_t> drawn;
  for (int64_t i = 0; i < 2000; ++i) drawn.insert(draw(logits(), {1.0, shares[2] + shares[3] - 1e-6, 5}, i));
  EXPECT_EQ(drawn, (std::set<int64_t>{2, 3}));
}

}  // namespace
}  // namespace wmtp
