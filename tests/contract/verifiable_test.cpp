// verifiable on hand-made values: exact advantages and weights, running statistics, sums over all ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fake_step.hpp"
#include "made_plugin.hpp"
#include "plugins/torch/boundary.hpp"

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
  step.head_in_hand = 0;
  step.signals["value.value"] = values;
  return step;
}

auto verifiable(const OptionValues& options) { return test::made<Weighting>("verifiable", options); }

Tensor weights_of(FakeStep& step, const OptionValues& options) {
  const Weights weights = test::weigh(*verifiable(options), step);
  EXPECT_EQ(weights.meaning, Weights::Meaning::by_target);
  EXPECT_NO_THROW(check_weights_form(
      {"verifiable", 1, 0, {weights.values.size(0), weights.values.size(1)}, step.valid().sizes().vec(), false},
      weights));
  return weights.values;
}

/// Without whitening and with wide limits, the logarithm of a weight is the advantage.
OptionValues bare(OptionValues more = {}) {
  more.merge(OptionValues{{"whiten", false}, {"min", 1e-6}, {"max", 1e6}});
  return more;
}

/// Two answers: V 0.6 0.4 0.9 and V 0.3 0.1; values at prompts and in the padding must not matter.
FakeStep two_answers(std::vector<int64_t> correct = {1, 0}) {
  return step_with(answer_batch({"paaa.", "ppaa."}, correct), rows({{8, 0.6F, 0.4F, 0.9F, 7}, {8, 8, 0.3F, 0.1F, -7}}));
}

TEST(Verifiable, AnAdvantageIsWhatTheTokenChangedAndASumOfWhatFollows) {
  FakeStep step = two_answers();
  // d 0.1 -0.2 0.5 and -0.2 -0.2; with lambda 0.5 A_3 = 0.5, A_2 = -0.2 + 0.25, A_1 = 0.1 + 0.025; -0.3 -0.2
  const Tensor advantages = rows({{0, 0.125F, 0.05F, 0.5F, 0}, {0, 0, -0.3F, -0.2F, 0}});
  const Tensor kinds = rows({{1, 1, 1, 1, 0}, {1, 1, 1, 1, 0}});
  EXPECT_TRUE(at::allclose(weights_of(step, bare({{"lambda", 0.5}})), advantages.exp() * kinds));
  EXPECT_NEAR(step.metrics.at("td/mean").first, 0.175, 1e-6);
  EXPECT_EQ(step.metrics.at("td/mean").second, 5);
}

TEST(Verifiable, GammaAndBetaEnterWhereTheFormulaSaysSo) {
  FakeStep step = two_answers();
  // gamma 0.5: d 0.3-0.5, 0.2-0.6, 0.45-0.4; lambda 0
  const Tensor delta = rows({{-0.2F, -0.4F, 0.05F}}) / 2;
  const Tensor weights = weights_of(step, bare({{"lambda", 0.0}, {"gamma", 0.5}, {"beta", 2.0}}));
  EXPECT_TRUE(at::allclose(weights.narrow(0, 0, 1).narrow(1, 1, 3), delta.exp()));
}

TEST(Verifiable, TdHasTheOutcomeAtTheEndAgainstTheValueBefore) {
  FakeStep step = two_answers();
  // right: 0.6-0.5, 0.4-0.6, 1-0.4; wrong: 0.3-0.5, 0-0.3
  const Tensor delta = rows({{0, 0.1F, -0.2F, 0.6F, 0}, {0, 0, -0.2F, -0.3F, 0}});
  const Tensor kinds = rows({{1, 1, 1, 1, 0}, {1, 1, 1, 1, 0}});
  EXPECT_TRUE(at::allclose(weights_of(step, bare({{"mode", "td"}})), delta.exp() * kinds));
}

TEST(Verifiable, TdLeavesAnswersOfUnknownOutcomeAlone) {
  FakeStep step = two_answers({1, -1});
  const Tensor weights = weights_of(step, bare({{"mode", "td"}}));
  EXPECT_TRUE(at::equal(weights[1], at::tensor(std::vector<float>{1, 1, 1, 1, 0})));
  EXPECT_EQ(step.metrics.at("td/mean").second, 3);
}

TEST(Verifiable, ALongAnswersAdvantagesAreThoseOfTheRecursion) {
  at::manual_seed(4);
  for (const double lambda : {1.0, 0.95, 0.3, 0.0}) {
    const int64_t S = 3000;
    FakeStep step = step_with(answer_batch({"p" + std::string(size_t(S - 1), 'a')}, {1}), at::rand({1, S}));
    const Tensor value = step.signals.at("value.value").to(at::kDouble).contiguous();
    const double* const v = value.data_ptr<double>();
    std::vector<double> wanted((size_t(S)));
    for (int64_t t = S - 1; t >= 1; --t) {
      const double before = t == 1 ? 0.5 : v[t - 1], after = t + 1 < S ? wanted[size_t(t + 1)] : 0;
      wanted[size_t(t)] = 0.99 * v[t] - before + 0.99 * lambda * after;
    }
    const Tensor found = weights_of(step, bare({{"lambda", lambda}, {"gamma", 0.99}, {"beta", 4.0}})).log() * 4;
    const Tensor compared = at::tensor(wanted, at::kDouble).narrow(0, 1, S - 1);
    EXPECT_LT((found[0].narrow(0, 1, S - 1) - compared).abs().max().item<double>(), 2e-5) << lambda;
  }
}

TEST(Verifiable, SigmoidMakesProbabilitiesOfLogits) {
  FakeStep step = step_with(answer_batch({"pa"}, {1}), rows({{0, 2}}));
  const double wanted = std::exp(1 / (1 + std::exp(-2.0)) - 0.5);
  EXPECT_NEAR(weights_of(step, bare({{"squash", "sigmoid"}}))[0][1].item<double>(), wanted, 1e-6);
  EXPECT_NEAR(step.metrics.at("value/mean").first, 1 / (1 + std::exp(-2.0)), 1e-6);
}

TEST(Verifiable, OfScoresDifferencesAloneCount) {
  const auto weights = [](float added) {
    FakeStep step = two_answers();
    step.signals.at("value.value") += added;
    return weights_of(step, bare({{"critic", "score"}, {"lambda", 0.0}}));
  };
  // V 8 | 0.6 0.4 0.9 and 8 | 0.3 0.1
  const Tensor delta = rows({{0, -7.4F, -0.2F, 0.5F, 0}, {0, 0, -7.7F, -0.2F, 0}});
  const Tensor kinds = rows({{1, 1, 1, 1, 0}, {1, 1, 1, 1, 0}});
  EXPECT_TRUE(at::allclose(weights(0), delta.exp() * kinds, 1e-4));
  EXPECT_TRUE(at::allclose(weights(8), weights(0), 1e-4)) << "what is added to all of them cancels";
  FakeStep without_prompt = step_with(answer_batch({"aa"}, {1}), rows({{3, 4}}));
  EXPECT_NEAR(weights_of(without_prompt, bare({{"critic", "score"}, {"lambda", 0.0}}))[0][0].item<double>(), 1, 1e-6);
}

TEST(Verifiable, RefusesWhatScoresCannotGive) {
  EXPECT_TRUE(verifiable({{"critic", "score"}})->needs().scores);
  EXPECT_FALSE(verifiable({{"squash", "sigmoid"}})->needs().scores);
  const std::vector<OptionValues> refused{
      {{"squash", "sigmoid"}}, {{"mode", "td"}}, {{"gamma", 0.9}}, {{"joint", true}}};
  for (OptionValues options : refused) {
    const std::string option = options.begin()->first;
    options["critic"] = "score";
    EXPECT_EQ(test::refused_option<Weighting>("verifiable", options), option == "joint" ? "critic" : option);
  }
}

/// Mean and standard deviation.
std::pair<double, double> spread(const std::vector<double>& all) {
  double sum = 0, squares = 0;
  for (const double x : all) sum += x, squares += x * x;
  const double n = double(all.size()), mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean)};
}

TEST(Verifiable, WhitensByTheMeanAndDeviationOfAllRanks) {
  FakeStep step = two_answers();
  step.other_sums = {at::tensor({3.0, 0.6, 0.62}, at::kDouble)};  // of 0.2 -0.3 0.7
  const Tensor weights = weights_of(step, {{"lambda", 0.0}, {"min", 1e-6}, {"max", 1e6}});
  const auto [mean, deviation] = spread({0.1, -0.2, 0.5, -0.2, -0.2, 0.2, -0.3, 0.7});
  EXPECT_NEAR(weights[0][3].item<double>(), std::exp((0.5 - mean) / deviation), 1e-5);
  EXPECT_NEAR(step.metrics.at("td/std").first, deviation, 1e-6);
  EXPECT_NEAR(step.metrics.at("td/ema_mean").first, mean, 1e-6);
  EXPECT_EQ(step.num_collectives, 1);
}

TEST(Verifiable, StatisticsRunOnFromTheStateAsIfNothingHadHappened) {
  at::manual_seed(6);
  const Batch batch = answer_batch({"paaaaaaa", "ppaaaa.."}, {1, 0});
  std::vector<Tensor> values;
  for (int i = 0; i < 14; ++i) values.push_back(at::rand({2, 8}));
  const auto go = [&](size_t from, size_t to, std::map<std::string, Tensor>& pipeline_state) {
    const auto plugin = verifiable({});
    Tensor last;
    for (size_t i = from; i < to; ++i) {
      FakeStep step = step_with(batch, values[i]);
      step.pipeline_state = pipeline_state;
      last = test::weigh(*plugin, step).values;
      pipeline_state = step.pipeline_state;
    }
    return last;
  };
  std::map<std::string, Tensor> whole, halves;
  const Tensor at_once = go(0, 14, whole);
  go(0, 7, halves);
  EXPECT_TRUE(at::equal(go(7, 14, halves), at_once));
  EXPECT_TRUE(at::equal(whole.at("advantages"), halves.at("advantages")));
  EXPECT_EQ(whole.at("advantages")[2].item<double>(), 14);
}

TEST(Verifiable, TheFirstTenStatisticsAreAveragedAndLaterOnesCountATenth) {
  const Batch batch = answer_batch({"paa"}, {1});
  std::map<std::string, Tensor> pipeline_state;
  double mean = 0, deviation = 0;
  for (int n = 1; n <= 12; ++n) {
    const double last = 0.05 * n, d1 = 0.25 - 0.5, d2 = last - 0.25;
    FakeStep step = step_with(batch, rows({{0, 0.25F, float(last)}}));
    step.pipeline_state = pipeline_state;
    weights_of(step, {{"lambda", 0.0}});
    pipeline_state = step.pipeline_state;
    const double share = n <= 10 ? 1.0 / n : 0.1;
    mean += share * ((d1 + d2) / 2 - mean);
    deviation += share * (std::abs(d1 - d2) / 2 - deviation);
    EXPECT_NEAR(pipeline_state.at("advantages")[0].item<double>(), mean, 1e-7) << n;
    EXPECT_NEAR(pipeline_state.at("advantages")[1].item<double>(), deviation, 1e-7) << n;
  }
}

TEST(Verifiable, AMicroBatchWithoutAnswersChangesNoStatistics) {
  FakeStep first = two_answers();
  weights_of(first, {});
  const Tensor before = first.pipeline_state.at("advantages").clone();
  FakeStep empty = step_with(answer_batch({"pp..", "...."}, {1, -1}), at::rand({2, 4}));
  empty.pipeline_state = first.pipeline_state;
  EXPECT_TRUE(at::equal(weights_of(empty, {{"mean_one", "batch"}}), rows({{1, 1, 0, 0}, {0, 0, 0, 0}})));
  EXPECT_TRUE(at::equal(empty.pipeline_state.at("advantages"), before));
}

TEST(Verifiable, WeightsStayBetweenMinAndMax) {
  FakeStep step = two_answers();
  const Tensor weights = weights_of(step, {{"beta", 0.01}});
  EXPECT_FLOAT_EQ(weights[0][3].item<float>(), 3);
  EXPECT_FLOAT_EQ(weights[1][2].item<float>(), 0.1F);
  const auto [clipped, counted] = step.metrics.at("weights/clipped");
  EXPECT_EQ(clipped, 5);
  EXPECT_EQ(counted, 5);
}

TEST(Verifiable, TheMeanWeightIsOneWhereItIsWanted) {
  FakeStep none = two_answers(), sequence = two_answers(), batch = two_answers();
  const Tensor raw = weights_of(none, {});
  const Tensor answers = none.batch().kind.eq(2).to(at::kFloat), prompts = none.batch().kind.eq(1).to(at::kFloat);
  EXPECT_NEAR(none.metrics.at("weights/before_mean_one").first, (raw * answers).sum().item<double>(), 1e-6);

  const Tensor by_sequence = weights_of(sequence, {{"mean_one", "sequence"}});
  EXPECT_TRUE(at::allclose((by_sequence * answers).sum(1), answers.sum(1)));
  EXPECT_TRUE(at::equal(by_sequence * prompts, prompts));

  // The other rank contributes nothing to whitening, and 10 tokens of weight 2 to the mean.
  batch.other_sums = {at::zeros({3}, at::kDouble), at::tensor({20.0, 10.0}, at::kDouble)};
  const double mean = ((raw * answers).sum().item<double>() + 20) / 15;
  const Tensor by_batch = weights_of(batch, {{"mean_one", "batch"}});
  EXPECT_TRUE(at::allclose(by_batch * answers, raw * answers / mean));
  EXPECT_TRUE(at::equal(by_batch * prompts, prompts));
}

TEST(Verifiable, JointTrainsItsOwnHeadAndWeighsByIt) {
  const auto joint =
      verifiable({{"joint", true}, {"head", "mlp"}, {"value_loss", "monte_carlo"}, {"value_coefficient", 0.5}});
  const Needs needs = joint->needs();
  EXPECT_EQ(needs.heads.at(0).kind, "mlp");
  EXPECT_EQ(needs.values.at(0).head(), "value");
  FakeStep step = two_answers();
  step.signals["policy.value:value"] = step.signals.at("value.value");
  step.signals.erase("value.value");
  const Tensor loss = joint->value_loss(step);
  // errors 0.4 0.6 0.1 from 1, and 0.3 0.1 from 0
  EXPECT_NEAR(loss.item<double>(), 0.5 * (0.16 + 0.36 + 0.01 + 0.09 + 0.01) / 5, 1e-6);
  loss.backward();
  EXPECT_GT(step.signals.at("policy.value:value").grad().abs().sum().item<float>(), 0);
  EXPECT_EQ(step.metrics.count("value/explained_variance"), 1U);
  step.signals.at("policy.value:value") = step.signals.at("policy.value:value").detach();
  FakeStep frozen = two_answers();
  EXPECT_TRUE(at::equal(test::weigh(*joint, step).values, weights_of(frozen, {})));
}

TEST(Verifiable, WithAFrozenModelThereIsNoLossOfItsOwn) {
  FakeStep step = two_answers();
  const auto plugin = verifiable({});
  EXPECT_FALSE(plugin->value_loss(step).defined());
  EXPECT_TRUE(plugin->needs().heads.empty());
  EXPECT_TRUE(plugin->needs().values.at(0).is_frozen());
}

TEST(Verifiable, RefusesOptionsThatContradict) {
  const auto refused = [](const OptionValues& options) {
    return test::refused_option<Weighting>("verifiable", options);
  };
  EXPECT_EQ(refused({{"min", 4.0}}), "min");
  EXPECT_EQ(refused({{"mode", "td"}, {"lambda", 0.5}}), "lambda");
  EXPECT_EQ(refused({{"mode", "td"}, {"lambda", 0.5}, {"joint", true}}), "");
  EXPECT_EQ(refused({{"mode", "td"}, {"lambda", 0.5}, {"joint", true}, {"value_loss", "monte_carlo"}}), "lambda");
  EXPECT_EQ(refused({{"head", "mlp"}}), "head");
  EXPECT_EQ(refused({{"error", "mse"}}), "error") << "given, though with the value of the default";
  EXPECT_EQ(refused({{"value_loss", "monte_carlo"}}), "value_loss");
  EXPECT_EQ(refused({{"value_coefficient", 0.5}}), "value_coefficient");
  EXPECT_EQ(refused({{"error", "huber"}}), "error");
  EXPECT_EQ(refused({{"joint", true}, {"huber_delta", 1.0}}), "huber_delta");
}

}  // namespace
}  // namespace wmtp
