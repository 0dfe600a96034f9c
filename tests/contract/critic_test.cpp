// critic on hand-made values: the exact losses, and the reported metrics.
#include <gtest/gtest.h>

#include <cmath>

#include "fake_step.hpp"
#include "made_plugin.hpp"

namespace wmtp {
namespace {

using test::answer_batch;
using test::FakeStep;

Tensor rows(const std::vector<std::vector<float>>& values) {
  std::vector<Tensor> rows;
  for (const auto& row : values) rows.push_back(at::tensor(row));
  return at::stack(rows);
}

FakeStep step_with(const Batch& batch, const Tensor& values) {
  FakeStep step(batch.kind.eq(2).unsqueeze(-1).expand({-1, -1, 4}));
  step.batch_in_hand = batch;
  step.signals["policy.value:value"] = values;
  return step;
}

auto critic(const OptionValues& options) { return test::made<Objective>("critic", options); }

double loss_of(FakeStep& step, const OptionValues& options) { return critic(options)->loss(step).item<double>(); }

double mean_of(const FakeStep& step, const std::string& metric) {
  const auto& [sum, count] = step.metrics.at(metric);
  return sum / count;
}

/// V 0.2 0.4 0.6 over an answer of three tokens; values at the prompt and in the padding must not matter.
FakeStep one_right_answer() { return step_with(answer_batch({"paaa."}, {1}), rows({{9, 0.2F, 0.4F, 0.6F, -7}})); }

/// A right answer with mean V 1, followed by a wrong one to the same problem with mean V 0.5.
FakeStep a_pair() {
  Batch batch = answer_batch({"ppaa", "paa."}, {1, 0});
  batch.partner = at::tensor(std::vector<int64_t>{1, 0});
  return step_with(batch, rows({{9, 9, 0.5F, 1.5F}, {-9, 1, 0, 9}}));
}

TEST(Critic, PairwiseIsBradleyTerryOverTheAnswersMeans) {
  FakeStep step = a_pair();
  const Tensor loss = critic({{"loss", "pairwise"}})->loss(step);
  const double gap = 0.5, lost = std::log1p(std::exp(-gap));
  EXPECT_NEAR(loss.item<double>(), lost, 1e-6);
  loss.backward();
  // d/dgap -log sigmoid(gap) = -sigmoid(-gap), spread evenly over each answer's two tokens
  const auto slope = float(0.5 / (1 + std::exp(gap)));
  EXPECT_TRUE(
      at::allclose(step.signals.at("policy.value:value").grad(), rows({{0, 0, -slope, -slope}, {0, slope, slope, 0}})));
  EXPECT_EQ(step.metrics.at("pair/accuracy"), (std::pair<double, double>{1, 1}));
  EXPECT_EQ(step.metrics.at("pair/margin"), (std::pair<double, double>{0.5, 1}));
  EXPECT_EQ(step.metrics.at("pair/mean_right"), (std::pair<double, double>{1, 1}));
  EXPECT_EQ(step.metrics.at("pair/mean_wrong"), (std::pair<double, double>{0.5, 1}));
  EXPECT_NEAR(mean_of(step, "value/loss"), lost, 1e-6);
  EXPECT_EQ(step.metrics.count("value/explained_variance"), 0U);
}

TEST(Critic, AMarginIsWhatTheRightAnswerMustLeadBy) {
  FakeStep step = a_pair();
  EXPECT_NEAR(loss_of(step, {{"margin", 2.0}}), std::log1p(std::exp(1.5)), 1e-6);
}

TEST(Critic, PairsDoNotFixWhatIsAddedToAllScoresUnlessTheyAreCentered) {
  const auto loss = [](double added, double center) {
    FakeStep step = a_pair();
    step.signals.at("policy.value:value").add_(added);
    return loss_of(step, center == 0 ? OptionValues{} : OptionValues{{"center", center}});
  };
  EXPECT_NEAR(loss(8, 0), loss(0, 0), 1e-6);
  // the means are 1 and 0.5: (9 + 8.5)^2 against 1.5^2
  EXPECT_NEAR(loss(0, 0.01), loss(0, 0) + 0.01 * 2.25, 1e-6);
  EXPECT_NEAR(loss(8, 0.01), loss(0, 0) + 0.01 * 306.25, 1e-5);
  EXPECT_NEAR(loss(-0.75, 0.01), loss(0, 0), 1e-6) << "around 0";
}

TEST(Critic, SaysWhetherItsHeadLearnsScoresOrValues) {
  EXPECT_EQ(critic({})->needs().heads.at(0).meaning, "score");
  for (const std::string loss : {"lambda_return", "monte_carlo"}) {
    EXPECT_EQ(critic({{"loss", loss}})->needs().heads.at(0).meaning, "value") << loss;
    EXPECT_EQ(test::refused_option<Objective>("critic", {{"loss", loss}, {"center", 0.01}}), "center");
  }
}

TEST(Critic, AnswersWithoutAPartnerRankNothing) {
  Batch batch = answer_batch({"paaa", "paaa", "...."}, {1, -1, -1});
  FakeStep step = step_with(batch, at::rand({3, 4}));
  EXPECT_EQ(loss_of(step, {{"loss", "pairwise"}}), 0);
  EXPECT_EQ(step.metrics.at("pair/accuracy"), (std::pair<double, double>{0, 0}));
}

TEST(Critic, ALambdaReturnLeansOnTheNextValue) {
  FakeStep step = one_right_answer();
  // G_3 = 1, G_2 = 0.5 * 0.6 + 0.5 * 1 = 0.8, G_1 = 0.5 * 0.4 + 0.5 * 0.8 = 0.6: each value is too low by 0.4.
  const Tensor loss = critic({{"loss", "lambda_return"}, {"lambda", 0.5}})->loss(step);
  EXPECT_NEAR(loss.item<double>(), 0.16, 1e-6);
  loss.backward();
  const float slope = 2 * -0.4F / 3;
  EXPECT_TRUE(at::allclose(step.signals.at("policy.value:value").grad(), rows({{0, slope, slope, slope, 0}})));
  EXPECT_NEAR(mean_of(step, "value/mse"), 0.16, 1e-6);
  EXPECT_NEAR(mean_of(step, "value/loss"), 0.16, 1e-6);
  EXPECT_EQ(step.metrics.count("pair/accuracy"), 0U);
}

TEST(Critic, GammaDiscountsEveryTokenAfterTheValue) {
  FakeStep step = one_right_answer();
  // G_3 = 1, G_2 = 0.5 * (0.5 * 0.6 + 0.5 * 1) = 0.4, G_1 = 0.5 * (0.5 * 0.4 + 0.5 * 0.4) = 0.2
  EXPECT_NEAR(loss_of(step, {{"loss", "lambda_return"}, {"lambda", 0.5}, {"gamma", 0.5}}), 0.16 / 3, 1e-6);
  FakeStep monte_carlo = one_right_answer();
  // G = 0.25 0.5 1
  EXPECT_NEAR(loss_of(monte_carlo, {{"loss", "monte_carlo"}, {"gamma", 0.5}}), (0.0025 + 0.01 + 0.16) / 3, 1e-6);
}

TEST(Critic, HuberIsSquaredNearAndLinearFar) {
  FakeStep step = one_right_answer();
  // errors 0.8, 0.6 and 0.4 with delta 0.5
  const double wanted = (0.5 * (0.8 - 0.25) + 0.5 * (0.6 - 0.25) + 0.5 * 0.16) / 3;
  EXPECT_NEAR(loss_of(step, {{"loss", "monte_carlo"}, {"error", "huber"}}), wanted, 1e-6);
}

TEST(Critic, AWrongAnswerReturnsNothingAndAnUnknownOneTeachesNothing) {
  FakeStep step = step_with(answer_batch({"paa", "aa."}, {0, -1}), rows({{5, 0.5F, 0.5F}, {3, 3, 3}}));
  const Tensor loss = critic({{"loss", "monte_carlo"}})->loss(step);
  EXPECT_NEAR(loss.item<double>(), 0.5 / 4, 1e-6);  // over all four answer tokens
  loss.backward();
  EXPECT_TRUE(at::allclose(step.signals.at("policy.value:value").grad(), rows({{0, 0.25F, 0.25F}, {0, 0, 0}})));
  EXPECT_EQ(step.metrics.at("value/mse"), (std::pair<double, double>{0.5, 2}));
}

TEST(Critic, ExplainedVarianceIsARatioOverAllRanks) {
  // This rank: returns 1 1, values 0.5 1; the other rank: returns 0 0, values 0 0.5; residuals 0.5 0 and 0 -0.5.
  FakeStep step = step_with(answer_batch({"paa"}, {1}), rows({{0, 0.5F, 1}}));
  const auto moments = [](std::vector<double> all) { return at::tensor(all, at::kDouble).reshape({2, 3}); };
  step.other_sums = {moments({2, 0, 0, 2, -0.5, 0.25})};
  loss_of(step, {{"loss", "monte_carlo"}});
  EXPECT_EQ(step.num_collectives, 1);
  const auto [sum, count] = step.metrics.at("value/explained_variance");
  EXPECT_EQ(count, 4);
  EXPECT_NEAR(sum / count, 1 - (0.5 / 4) / (0.25 + 1e-5), 1e-9);
}

TEST(Critic, TellsWhereAValueFollowsThePositionAlone) {
  Batch batch = answer_batch({"paaaa", "paaaa", "paaaa", "paa.."}, {1, 0, 1, 1});
  FakeStep step = step_with(batch, rows({{9, 1, 2, 3, 4}, {9, 0, 0, 0, 3}, {9, 2, 2, 2, 2}, {9, 1, 5, 9, 9}}));
  loss_of(step, {{"loss", "monte_carlo"}});
  // The third is constant and the fourth too short. Deviations of the second: -0.75 three times, 2.25.
  const double first = 1, second = (-1.5 * -0.75 - 0.5 * -0.75 + 0.5 * -0.75 + 1.5 * 2.25) / std::sqrt(5 * 6.75);
  const auto [correlation, moving] = step.metrics.at("value/position_correlation");
  EXPECT_NEAR(correlation, first + second, 1e-9);
  EXPECT_EQ(moving, 2);
  EXPECT_NEAR(step.metrics.at("value/spikiness").first, 1 + 3, 1e-9);
  EXPECT_NEAR(step.metrics.at("value/token_variance").first, 1.25 + 6.75 / 4 + 0, 1e-9);
  EXPECT_EQ(step.metrics.at("value/token_variance").second, 3);
}

TEST(Critic, ABatchWithoutAnswersIsWorthNothingAndIsFinite) {
  for (const char* loss : {"pairwise", "lambda_return", "monte_carlo"}) {
    FakeStep step = step_with(answer_batch({"pp..", "...."}, {1, -1}), at::rand({2, 4}));
    const Tensor value = critic({{"loss", loss}})->loss(step);
    EXPECT_EQ(value.item<double>(), 0) << loss;
    value.backward();
    EXPECT_EQ(step.signals.at("policy.value:value").grad().abs().sum().item<float>(), 0) << loss;
    for (const auto& [name, ratio] : step.metrics) EXPECT_TRUE(std::isfinite(ratio.first)) << loss << ' ' << name;
  }
}

TEST(Critic, AsksForPairsOnlyToRankThemAndForTheHeadItWasToldOf) {
  const Needs ranks = critic({})->needs(), mlp = critic({{"loss", "monte_carlo"}, {"head", "mlp"}})->needs();
  EXPECT_TRUE(ranks.pairs);
  EXPECT_EQ(ranks.heads.at(0).kind, "linear");
  EXPECT_FALSE(mlp.pairs);
  EXPECT_EQ(mlp.heads.at(0).kind, "mlp");
}

TEST(Critic, RefusesOptionsThatMeanNothingWithItsLoss) {
  const auto refused = [](const OptionValues& options) { return test::refused_option<Objective>("critic", options); };
  EXPECT_EQ(refused({{"gamma", 0.9}}), "gamma");
  EXPECT_EQ(refused({{"gamma", 1.0}}), "gamma") << "given, though with the value of the default";
  EXPECT_EQ(refused({{"error", "huber"}}), "error");
  EXPECT_EQ(refused({{"loss", "monte_carlo"}, {"lambda", 0.5}}), "lambda");
  EXPECT_EQ(refused({{"loss", "lambda_return"}, {"margin", 1.0}}), "margin");
  EXPECT_EQ(refused({{"loss", "lambda_return"}, {"huber_delta", 1.0}}), "huber_delta");
  EXPECT_EQ(refused({{"loss", "lambda_return"}, {"error", "huber"}, {"huber_delta", 1.0}, {"gamma", 0.9}}), "");
}

}  // namespace
}  // namespace wmtp
