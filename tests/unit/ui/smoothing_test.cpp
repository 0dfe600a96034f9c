#include "ui/smoothing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace wmtp {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

std::vector<double> counted(size_t n) {
  std::vector<double> x;
  for (size_t i = 0; i < n; ++i) x.push_back(double(i));
  return x;
}

TEST(Smoothing, BeginsAtTheFirstValueAndNotAtZero) {
  const auto means = debiased_mean(counted(4), {5, 5, 5, 5}, 0.99);
  for (const double mean : means) EXPECT_NEAR(mean, 5, 1e-12);
}

TEST(Smoothing, IsTheWeightedMeanOfTheDefinition) {
  const std::vector<double> values{3, 1, 4, 1, 5};
  const double factor = 0.8;
  const auto means = debiased_mean(counted(values.size()), values, factor);
  for (size_t n = 0; n < values.size(); ++n) {
    double sum = 0, weights = 0;
    for (size_t i = 0; i <= n; ++i) {
      const double weight = std::pow(factor, double(n - i));
      sum += weight * values[i], weights += weight;
    }
    EXPECT_NEAR(means[n], sum / weights, 1e-12);
  }
}

TEST(Smoothing, KeepsValuesWithFactorZero) {
  EXPECT_EQ(debiased_mean(counted(3), {3, 1, 4}, 0), (std::vector<double>{3, 1, 4}));
}

TEST(Smoothing, SkipsValuesThatAreNotFinite) {
  const auto means = debiased_mean(counted(4), {2, nan, inf, 4}, 0.5);
  EXPECT_TRUE(std::isnan(means[1]));
  EXPECT_TRUE(std::isnan(means[2]));
  EXPECT_EQ(means[3], debiased_mean({0, 3}, {2, 4}, 0.5)[1]);
}

TEST(Smoothing, CountsStepsAndNotPoints) {
  std::vector<double> steps, values;
  for (int i = 0; i < 100; ++i) steps.push_back(50 * i), values.push_back(5 - 0.03 * i);
  const auto means = smoothed(steps, values, 0.9);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(means[i], values[i], 0.001) << "a validation each 50 steps";
  EXPECT_NEAR(debiased_mean({0, 2}, {1, 4}, 0.5)[1], (0.25 * 1 + 4) / 1.25, 1e-12);
}

TEST(Smoothing, KeepsACurveOfFewPoints) {
  std::vector<double> values{8, 5, 4, nan, 3.2, 2.86};
  auto means = smoothed(counted(6), values, max_smoothing);
  EXPECT_TRUE(std::isnan(means[3]));
  means[3] = values[3] = 0;
  EXPECT_EQ(means, values);
}

TEST(Smoothing, UsesAllPointsAndNotOnlyShownOnes) {
  std::vector<double> values(100'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 1 : 3;
  const auto x = counted(values.size());
  const auto means = debiased_mean(x, values, 0.99);
  // The least and greatest of each cell are 1 and 3; a mean over those alone, or over one side, is not 2.
  for (const size_t i : downsampled(x, means, {50'000, 99'999, 100})) EXPECT_NEAR(means[i], 2, 0.02);
}

TEST(Thinning, KeepsTheMinimumAndMaximumOfEachCell) {
  auto x = counted(10'000);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = std::sin(double(i));
  y[1234] = 100, y[5678] = -100;
  const Window window{0, 9'999, 50};
  const auto kept = downsampled(x, y, window);
  EXPECT_LE(kept.size(), 2 * window.cells + 2);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  EXPECT_EQ(std::adjacent_find(kept.begin(), kept.end()), kept.end());
  EXPECT_EQ(kept.front(), 0u);
  EXPECT_EQ(kept.back(), 9'999u);
  for (const size_t spike : {1234u, 5678u}) EXPECT_TRUE(std::find(kept.begin(), kept.end(), spike) != kept.end());
}

TEST(Thinning, KeepsFewPoints) {
  EXPECT_EQ(downsampled(counted(6), {1, nan, 2, inf, 3, -inf}, {0, 5, 3}), (std::vector<size_t>{0, 2, 4}));
  EXPECT_TRUE(downsampled({}, {}, {0, 0, 10}).empty());
  EXPECT_TRUE(downsampled({1, 2}, {nan, nan}, {0, 5, 10}).empty());
}

TEST(Thinning, IncludesTheNeighboursOfTheWindow) {
  EXPECT_EQ(downsampled(counted(10), counted(10), {3, 5, 100}), (std::vector<size_t>{2, 3, 4, 5, 6}));
  EXPECT_EQ(downsampled(counted(10), counted(10), {20, 30, 100}), (std::vector<size_t>{9}));
}

TEST(Thinning, AcceptsAWindowOfZeroWidth) {
  EXPECT_EQ(downsampled({4}, {1}, {4, 4, 10}), (std::vector<size_t>{0}));
  EXPECT_EQ(not_finite({4}, {nan}, {4, 4, 10}), (std::vector<size_t>{0}));
}

TEST(SharedSteps, AreTheRoundestOfLongCurvesAndAllOfShortOnes) {
  std::vector<double> dense, fifth;
  for (int step = 1; step <= 1000; ++step) dense.push_back(step);
  for (int step = 3; step <= 1000; step += 333) fifth.push_back(step);
  EXPECT_EQ(shared_steps({dense, fifth}, 10),
            (std::vector<double>{3, 100, 200, 300, 336, 400, 500, 600, 669, 700, 800, 900, 1000}));
  EXPECT_TRUE(shared_steps({dense, fifth}, 500).empty()) << "all points are drawn";
}

TEST(SharedSteps, AreAddedToThePointsThatACurveHas) {
  EXPECT_EQ(with_steps({0, 3}, {10, 20, 30, 40, 50}, {1, 2, nan, 4, 5}, {5, 20, 25, 30, 40, 60}),
            (std::vector<size_t>{0, 1, 3}));
  EXPECT_EQ(with_steps({1}, {10, 20}, {1, 2}, {}), (std::vector<size_t>{1}));
}

TEST(UsualDistance, IsThatOfMostNeighbours) {
  EXPECT_EQ(usual_distance({0, 1, 10, 20, 30}), 10);
  EXPECT_EQ(usual_distance({7}), 0);
}

TEST(NotFinite, IsListedByKindAndPlace) {
  const auto x = counted(1000);
  std::vector<double> y(1000, nan);
  y[500] = inf, y[501] = -inf, y[502] = 7;
  const auto found = not_finite(x, y, {0, 999, 10});
  EXPECT_EQ(std::count_if(found.begin(), found.end(), [&](size_t i) { return std::isnan(y[i]); }), 10);
  for (const size_t odd : {500u, 501u}) EXPECT_TRUE(std::find(found.begin(), found.end(), odd) != found.end());
  EXPECT_TRUE(std::find(found.begin(), found.end(), 502u) == found.end());
}

}  // namespace
}  // namespace wmtp
