// rho1 on hand-made losses: the tokens that it keeps, and the metrics that it reports.
#include <gtest/gtest.h>

#include <cmath>

#include "fake_step.hpp"
#include "made_plugin.hpp"

namespace wmtp {
namespace {

using test::FakeStep;

Tensor row(std::vector<float> values) { return at::tensor(values).reshape({1, -1}); }
Tensor mask(std::vector<int64_t> values) { return at::tensor(values).reshape({1, -1}).to(at::kBool); }

std::vector<float> run(FakeStep& step, const OptionValues& options) {
  const auto rho1 = test::made<Weighting>("rho1", options);
  const Weights weights = test::weigh(*rho1, step);
  EXPECT_EQ(weights.meaning, Weights::Meaning::by_source);
  EXPECT_EQ(weights.values.sizes(), step.valid().sizes());
  const Tensor flat = weights.values.contiguous().flatten();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

FakeStep step_with(const Tensor& policy, const Tensor& reference, const Tensor& valid) {
  FakeStep step(valid);
  step.signals["policy.loss"] = policy;
  step.signals["reference.loss"] = reference;
  return step;
}

/// Excess 1 -2 3 0 5; the last position is not valid and would otherwise be the largest.
FakeStep five_tokens() { return step_with(row({2, 1, 4, 1, 6, 0}), row({1, 3, 1, 1, 1, 0}), mask({1, 1, 1, 1, 1, 0})); }

TEST(Rho1, KeepsTheTokensWithTheLargestExcess) {
  FakeStep step = five_tokens();
  // torch.quantile([-2,0,1,3,5], 0.4) = 0 + 0.6 * (1 - 0) = 0.6
  EXPECT_EQ(run(step, {{"keep", 0.6}}), (std::vector<float>{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(step.metrics.at("rho1/selection_ratio"), (std::pair<double, double>{3, 5}));
  EXPECT_EQ(step.metrics.at("rho1/excess_mean"), (std::pair<double, double>{7, 5}));
  EXPECT_EQ(step.metrics.at("rho1/ce_selected"), (std::pair<double, double>{12, 3}));
  EXPECT_EQ(step.metrics.at("rho1/ce_unselected"), (std::pair<double, double>{2, 2}));
}

TEST(Rho1, TheModesScoreDifferently) {
  // |excess| 1 2 3 0 5: its 0.6-quantile is 2.4
  FakeStep absolute = five_tokens();
  EXPECT_EQ(run(absolute, {{"keep", 0.4}, {"mode", "absolute"}}), (std::vector<float>{0, 0, 1, 0, 1, 0}));
  FakeStep signed_mode = five_tokens();
  EXPECT_EQ(run(signed_mode, {{"keep", 0.4}, {"mode", "signed"}}), (std::vector<float>{0, 0, 1, 0, 1, 0}));
  FakeStep difficult = five_tokens();
  EXPECT_EQ(run(difficult, {{"keep", 0.2}, {"mode", "difficult"}}), (std::vector<float>{0, 1, 0, 0, 0, 0}));
}

/// As above, with reference entropies 4 1 2 3 0.
FakeStep five_with_entropies() {
  FakeStep step = five_tokens();
  step.signals["reference.entropy"] = row({4, 1, 2, 3, 0, 0});
  return step;
}

TEST(Rho1, SelfReferenceKeepsWhatTheReferenceFindsEasyOrIsSureOf) {
  // Reference losses 1 3 1 1 1: those with the lowest are kept.
  FakeStep loss = five_with_entropies(), entropy = five_with_entropies(), both = five_with_entropies();
  EXPECT_EQ(run(loss, {{"keep", 0.6}, {"mode", "self_loss"}}), (std::vector<float>{1, 0, 1, 1, 1, 0}));
  // the 0.4-quantile of -4 -3 -2 -1 0 is -2.4
  EXPECT_EQ(run(entropy, {{"keep", 0.6}, {"mode", "self_entropy"}}), (std::vector<float>{0, 1, 1, 0, 1, 0}));
  EXPECT_EQ(run(both, {{"keep", 0.6}, {"mode", "self_both"}}), (std::vector<float>{0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(both.metrics.at("rho1/selection_ratio"), (std::pair<double, double>{2, 5}));
  EXPECT_EQ(both.num_collectives, 2);
}

TEST(Rho1, ReadsEntropiesOnlyWhereTheModeNeedsThem) {
  const auto reads = [](const char* mode) {
    std::string text;
    for (const Signal signal : test::made<Weighting>("rho1", {{"mode", mode}})->needs().reads)
      text += to_text(signal) + " ";
    return text;
  };
  EXPECT_EQ(reads("signed"), "policy.loss reference.loss ");
  EXPECT_EQ(reads("self_loss"), "policy.loss reference.loss ");
  EXPECT_EQ(reads("self_entropy"), "policy.loss reference.loss reference.entropy ");
  EXPECT_EQ(reads("self_both"), "policy.loss reference.loss reference.entropy ");
}

TEST(Rho1, SoftWeightsAreASoftmaxOfMeanOne) {
  FakeStep step = five_tokens();
  const std::vector<float> weights = run(step, {{"selection", "soft"}, {"temperature", 2.0}});
  const std::vector<double> excess = {1, -2, 3, 0, 5};
  double sum = 0;
  for (const double x : excess) sum += std::exp(x / 2);
  for (size_t i = 0; i < excess.size(); ++i) EXPECT_NEAR(weights[i], 5 * std::exp(excess[i] / 2) / sum, 1e-5);
  EXPECT_EQ(weights[5], 0);
  EXPECT_EQ(step.metrics.at("rho1/excess_mean"), (std::pair<double, double>{7, 5}));
  EXPECT_EQ(step.metrics.count("rho1/selection_ratio"), 0U);
}

TEST(Rho1, SoftWeightsAreOverAllRanksUnlessToldOtherwise) {
  FakeStep all = five_tokens(), here = five_tokens();
  // The other rank has one token of excess 6, the largest: it adds exp(0) and one token to the sums.
  for (FakeStep* step : {&all, &here})
    step->other_rank = {row({6}), mask({1})}, step->other_sums = {at::tensor({1.0, 1.0}, at::kDouble)};
  double sum = 1;
  for (const double x : {1, -2, 3, 0, 5}) sum += std::exp(x - 6);
  EXPECT_NEAR(run(all, {{"selection", "soft"}})[4], 6 * std::exp(-1) / sum, 1e-5);
  run(here, {{"selection", "soft"}, {"per_rank", true}});
  EXPECT_EQ(here.num_collectives, 0);
}

TEST(Rho1, ASoftmaxOfFarScoresStaysFinite) {
  FakeStep step = step_with(row({90, 0, 50, 7}), row({0, 90, 0, 7}), mask({1, 1, 1, 0}));
  EXPECT_EQ(run(step, {{"selection", "soft"}, {"temperature", 1e-6}}), (std::vector<float>{3, 0, 0, 0}));
  FakeStep nothing = step_with(row({0, 0}), row({0, 0}), mask({0, 0}));
  EXPECT_EQ(run(nothing, {{"selection", "soft"}}), (std::vector<float>{0, 0}));
}

TEST(Rho1, RefusesOptionsThatContradict) {
  const auto refused = [](const OptionValues& o) { return test::refused_option<Weighting>("rho1", o); };
  EXPECT_EQ(refused({{"temperature", 0.5}}), "temperature");
  EXPECT_EQ(refused({{"selection", "soft"}, {"keep", 0.5}}), "keep");
  EXPECT_EQ(refused({{"selection", "soft"}, {"keep", 0.6}}), "keep") << "given, though with the value of the default";
  EXPECT_EQ(refused({{"selection", "soft"}, {"mode", "self_both"}}), "selection");
  EXPECT_EQ(refused({{"selection", "soft"}, {"mode", "self_entropy"}, {"temperature", 0.5}}), "");
}

TEST(Rho1, KeepsTies) {
  FakeStep step = step_with(row({1, 1, 1, 1}), row({0, 0, 0, 0}), mask({1, 1, 1, 1}));
  EXPECT_EQ(run(step, {{"keep", 0.25}}), (std::vector<float>{1, 1, 1, 1}));
}

TEST(Rho1, KeepsTiesThatRoundingTellsApartWhateverTheScore) {
  const float one = 1, above = std::nextafter(one, 2.0F), below = std::nextafter(one, 0.0F);
  for (const bool per_rank : {false, true})
    for (const std::string mode : {"signed", "absolute"}) {
      FakeStep step = step_with(row({9 * above, 9 * below, 9, 8.99F}), row({1, 1, 1, 1}), mask({1, 1, 1, 1}));
      EXPECT_EQ(run(step, {{"keep", 0.25}, {"mode", mode}, {"per_rank", per_rank}}), (std::vector<float>{1, 1, 1, 0}));
    }
  for (const std::string mode : {"self_loss", "self_entropy", "self_both"}) {
    FakeStep step = step_with(row({0, 0, 0, 0}), row({above, below, 1, 1.01F}), mask({1, 1, 1, 1}));
    step.signals["reference.entropy"] = row({below, above, 1, 1.01F});
    EXPECT_EQ(run(step, {{"keep", 0.25}, {"mode", mode}}), (std::vector<float>{1, 1, 1, 0})) << mode;
  }
}

TEST(Rho1, KeepOneKeepsEverythingValidWithoutAsking) {
  FakeStep step = five_tokens();
  EXPECT_EQ(run(step, {{"keep", 1.0}}), (std::vector<float>{1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(step.num_collectives, 0);
}

TEST(Rho1, TheThresholdIsOverAllRanksUnlessToldOtherwise) {
  FakeStep all = five_tokens();
  all.other_rank = {row({10, 11, 12, 13, 14}), mask({1, 1, 1, 1, 1})};
  EXPECT_EQ(run(all, {{"keep", 0.6}}), (std::vector<float>{0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(all.num_collectives, 1);
  FakeStep here = five_tokens();
  here.other_rank = {row({10, 11, 12, 13, 14}), mask({1, 1, 1, 1, 1})};
  EXPECT_EQ(run(here, {{"keep", 0.6}, {"per_rank", true}}), (std::vector<float>{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(here.num_collectives, 0);
}

TEST(Rho1, AHeadWithoutValidTokensGetsZeros) {
  FakeStep step = step_with(row({0, 0}), row({0, 0}), mask({0, 0}));
  EXPECT_EQ(run(step, {}), (std::vector<float>{0, 0}));
  EXPECT_EQ(step.metrics.at("rho1/selection_ratio"), (std::pair<double, double>{0, 0}));
}

TEST(Rho1, AgreesWithTorchQuantileOnRandomLosses) {
  at::manual_seed(3);
  for (double keep : {0.1, 0.35, 0.6, 0.9}) {
    const Tensor policy = at::rand({4, 64}) * 8, reference = at::rand({4, 64}) * 8;
    const Tensor valid = at::rand({4, 64}) < 0.8;
    const Tensor excess = policy - reference;
    const Tensor threshold = at::quantile(excess.masked_select(valid), 1 - keep);
    const Tensor wanted = (excess >= threshold).logical_and(valid).to(at::kFloat).flatten();
    FakeStep step = step_with(policy, reference, valid);
    const std::vector<float> kept = run(step, {{"keep", keep}});
    EXPECT_TRUE(at::equal(at::tensor(kept), wanted)) << "keep " << keep;
    const auto [sum, count] = step.metrics.at("rho1/selection_ratio");
    EXPECT_NEAR(sum / count, keep, 1.5 / count);
  }
}

}  // namespace
}  // namespace wmtp
