// The small weightings, compared with their formulas on numbers computed by hand.
#include <gtest/gtest.h>

#include "fake_step.hpp"
#include "plugin_files.hpp"

namespace wmtp {
namespace {

using test::FakeStep;
using Metric = std::pair<double, double>;

Tensor row(std::vector<float> values) { return at::tensor(values).reshape({1, -1}); }
Tensor mask(std::vector<int64_t> values) { return at::tensor(values).reshape({1, -1}).to(at::kBool); }

FakeStep step_with(const std::string& signal, const Tensor& values, const Tensor& valid) {
  FakeStep step(valid);
  step.signals[signal] = values;
  return step;
}

Tensor weights_of(Weighting& weighting, FakeStep& step, Weights::Meaning meaning = Weights::Meaning::by_source) {
  const Weights weights = test::weigh(weighting, step);
  EXPECT_EQ(weights.meaning, meaning);
  EXPECT_EQ(weights.values.scalar_type(), at::kFloat);
  return weights.values;
}
Tensor weights_of(const std::string& name, FakeStep& step, const OptionValues& options = {},
                  Weights::Meaning meaning = Weights::Meaning::by_source) {
  return weights_of(*test::weighting(name, options), step, meaning);
}

void expect_close(const Tensor& found, const std::vector<double>& wanted) {
  const Tensor expected = at::tensor(wanted).to(at::kFloat).reshape(found.sizes());
  EXPECT_TRUE(at::allclose(found, expected, 1e-5, 1e-6)) << found << "\nwanted\n" << expected;
}

/// Losses whose probabilities are 1, 1/2 and 1/4.
FakeStep known_probabilities() {
  FakeStep step(at::ones({3}, at::kBool));
  step.signals["policy.loss"] = at::tensor(std::vector<float>{0, std::log(2.0F), std::log(4.0F)});
  return step;
}

TEST(Focal, IsAPowerOfOneMinusTheProbability) {
  FakeStep step = known_probabilities();
  expect_close(weights_of("focal", step), {0, 0.25, 0.5625});
  expect_close(weights_of("focal", step, {{"gamma", 1.0}}), {0, 0.5, 0.75});
  expect_close(weights_of("focal", step, {{"gamma", 0.0}}), {1, 1, 1});
  EXPECT_EQ(test::weighting("focal")->needs().when, When::token);
}

TEST(Focal, ALossBelowZeroByRoundingWeighsNothing) {
  FakeStep step(at::ones({1}, at::kBool));
  step.signals["policy.loss"] = at::full({1}, -1e-6F);
  expect_close(weights_of("focal", step, {{"gamma", 0.5}}), {0});
}

TEST(Dft, IsTheProbability) {
  FakeStep step = known_probabilities();
  expect_close(weights_of("dft", step), {1, 0.5, 0.25});
  EXPECT_EQ(test::weighting("dft")->needs().when, When::token);
}

/// Entropies 5 1 3 2 4; the last position is not valid.
FakeStep five_entropies() { return step_with("policy.entropy", row({5, 1, 3, 2, 4, 0}), mask({1, 1, 1, 1, 1, 0})); }

TEST(Entropy, KeepsTheShareOfTheHighestEntropyAndReadsNoLoss) {
  const auto entropy = test::weighting("entropy", {{"share", 0.4}});
  EXPECT_EQ(entropy->needs().reads, std::vector{Signal::policy_entropy});
  FakeStep step = five_entropies();
  expect_close(weights_of(*entropy, step), {1, 0, 0, 0, 1, 0});  // quantile([1,2,3,4,5], 0.6) = 3.4
  EXPECT_EQ(step.metrics.at("entropy/selection_ratio"), Metric(2, 5));
  EXPECT_NEAR(step.metrics.at("entropy/threshold").first, 3.4, 1e-6);
  EXPECT_EQ(step.metrics.at("entropy/mean"), Metric(15, 5));
  EXPECT_EQ(step.metrics.at("entropy/mean_selected"), Metric(9, 2));
}

TEST(Entropy, TheShareIsOverAllRanks) {
  FakeStep step = five_entropies();
  step.other_rank = {row({6, 7, 8, 9, 10}), mask({1, 1, 1, 1, 1})};
  expect_close(weights_of("entropy", step, {{"share", 0.6}}), {1, 0, 0, 0, 0, 0});  // quantile([1…10], 0.4) = 4.6
}

TEST(Entropy, KeepsTiesAndEverythingAtShareOne) {
  FakeStep ties = step_with("policy.entropy", row({2, 2, 2, 1}), mask({1, 1, 1, 1}));
  expect_close(weights_of("entropy", ties, {{"share", 0.3}}), {1, 1, 1, 0});
  FakeStep all = five_entropies();
  expect_close(weights_of("entropy", all, {{"share", 1.0}}), {1, 1, 1, 1, 1, 0});
}

TEST(Entropy, KeepsTiesThatRoundingTellsApartOnEitherSideOfTheThreshold) {
  const float two = 2, above = std::nextafter(two, 3.0F), below = std::nextafter(two, 1.0F);
  FakeStep ties = step_with("policy.entropy", row({below, two, above, above, 1.9999F}), mask({1, 1, 1, 1, 1}));
  expect_close(weights_of("entropy", ties, {{"share", 0.3}}), {1, 1, 1, 1, 0});
}

TEST(Mile, GrowsWithTheEntropyAndHasMeanOneOverAllRanks) {
  FakeStep step = step_with("policy.entropy", row({0, 1, 3, 0}), mask({1, 1, 1, 0}));
  expect_close(weights_of("mile", step), {1 * 3 / 7.0, 2 * 3 / 7.0, 4 * 3 / 7.0, 0});
  EXPECT_EQ(step.metrics.at("mile/entropy"), Metric(4, 3));
  FakeStep squared = step_with("policy.entropy", row({0, 1, 3, 0}), mask({1, 1, 1, 0}));
  expect_close(weights_of("mile", squared, {{"gamma", 2.0}, {"sigma", 0.5}}),
               {0.25 * 3 / 14.75, 2.25 * 3 / 14.75, 12.25 * 3 / 14.75, 0});
  FakeStep two = step_with("policy.entropy", row({0, 1, 3, 0}), mask({1, 1, 1, 0}));
  two.other_sums = {at::tensor({13.0, 2.0}, at::kDouble)};  // two more tokens with the sum 13: the mean is 20 / 5
  expect_close(weights_of("mile", two), {0.25, 0.5, 1, 0});
}

TEST(Mile, AHeadWithoutValidTokensGetsZeros) {
  FakeStep step = step_with("policy.entropy", row({0, 0}), mask({0, 0}));
  expect_close(weights_of("mile", step), {0, 0});
}

FakeStep losses(const Tensor& values, int64_t number) {
  FakeStep step = step_with("policy.loss", values, at::ones_like(values).to(at::kBool));
  step.step = number;
  return step;
}

TEST(Truncation, DropsWhatLiesAboveTheRunningQuantileOfTheBatchesBefore) {
  const auto truncation =
      test::weighting("truncation", {{"drop", 0.25}, {"momentum", 0.5}, {"warmup_steps", int64_t{2}}});
  FakeStep step = losses(row({1, 2, 3, 4, 5}), 1);
  expect_close(weights_of(*truncation, step), {1, 1, 1, 1, 1});  // no threshold yet; quantile 4
  EXPECT_EQ(step.pipeline_state.at("threshold")[0].item<float>(), 4);
  step.step = 2;
  step.signals["policy.loss"] = row({7, 8, 9, 10, 11});  // quantile 10: 4 + 0.5 * 6 = 7
  expect_close(weights_of(*truncation, step), {1, 1, 1, 1, 1});
  EXPECT_EQ(step.pipeline_state.at("threshold")[0].item<float>(), 7);
  step.step = 3;
  step.metrics.clear();
  step.signals["policy.loss"] = row({6, 7, 8, 3, 100});  // compared with the threshold 7; a loss of 7 is dropped too
  expect_close(weights_of(*truncation, step), {1, 0, 0, 1, 0});
  EXPECT_EQ(step.metrics.at("truncation/selection_ratio"), Metric(2, 5));
  EXPECT_EQ(step.metrics.at("truncation/ce_dropped"), Metric(115, 3));
  EXPECT_EQ(step.metrics.at("truncation/threshold"), Metric(7, 1));
}

TEST(Truncation, DropsTiesThatRoundingTellsApart) {
  const auto truncation =
      test::weighting("truncation", {{"drop", 0.5}, {"momentum", 1.0}, {"warmup_steps", int64_t{1}}});
  FakeStep step = losses(row({1, 7, 9}), 1);
  weights_of(*truncation, step);
  step.step = 2;
  step.signals["policy.loss"] = row({std::nextafter(7.0F, 0.0F), 7, 6.999F});
  expect_close(weights_of(*truncation, step), {0, 0, 1});
}

TEST(Truncation, EveryHeadHasAThresholdOfItsOwn) {
  const auto truncation = test::weighting("truncation", {{"drop", 0.5}, {"warmup_steps", int64_t{1}}});
  FakeStep step = losses(row({1, 2, 3}), 1);
  weights_of(*truncation, step);
  step.head_in_hand = 3;
  step.signals["policy.loss"] = row({10, 20, 30});
  weights_of(*truncation, step);
  const Tensor thresholds = step.pipeline_state.at("threshold");
  EXPECT_EQ(thresholds[0].item<float>(), 2);
  EXPECT_TRUE(at::isinf(thresholds[1]).item<bool>());
  EXPECT_EQ(thresholds[2].item<float>(), 20);
  step.step = 2;
  step.head_in_hand = 1;
  expect_close(weights_of(*truncation, step), {0, 0, 0});
  step.head_in_hand = 2;  // no threshold yet
  expect_close(weights_of(*truncation, step), {1, 1, 1});
}

TEST(Truncation, TheQuantileIsOverAllRanksAndABatchWithoutTokensChangesNothing) {
  const auto truncation = test::weighting("truncation", {{"drop", 0.5}});
  FakeStep step = losses(row({1, 2, 3}), 1);
  step.other_rank = {row({7, 8}), mask({1, 1})};
  weights_of(*truncation, step);
  EXPECT_EQ(step.pipeline_state.at("threshold")[0].item<float>(), 3);
  FakeStep empty = step_with("policy.loss", row({0, 0}), mask({0, 0}));
  empty.pipeline_state = step.pipeline_state;
  expect_close(weights_of(*truncation, empty), {0, 0});
  EXPECT_EQ(empty.pipeline_state.at("threshold")[0].item<float>(), 3);
}

TEST(Truncation, DropZeroKeepsEverythingValidWithoutAsking) {
  FakeStep step = step_with("policy.loss", row({1, 9, 0}), mask({1, 1, 0}));
  step.step = 100;
  expect_close(weights_of("truncation", step, {{"drop", 0.0}}), {1, 1, 0});
  EXPECT_EQ(step.num_collectives, 0);
}

/// One sequence for two heads, with a kind per token; an answer token is a target unless it is the first token.
FakeStep tokens(const std::vector<int64_t>& ids, const std::string& kinds) {
  const auto S = int64_t(ids.size());
  const Batch batch = [&] {
    Batch made = test::answer_batch({kinds}, {-1});
    made.tokens = at::tensor(ids).reshape({1, S});
    return made;
  }();
  const Tensor valid = at::zeros({1, S, 2}, at::kBool);
  for (int64_t k = 1; k <= 2; ++k)
    valid.select(-1, k - 1).narrow(1, 0, S - k).copy_(batch.kind.narrow(1, k, S - k).eq(2));
  FakeStep step(valid);
  step.batch_in_hand = batch;
  step.head_in_hand = 0;
  return step;
}

TEST(Frequency, FallsWithTheCountOfTheTargetsSoFarOnAllRanks) {
  const auto frequency = test::weighting("frequency", {{"power", 0.5}, {"smoothing", 1.0}});
  // Targets are 5 5 5 7: no head predicts the first 5, the last 9 is padding, and the 3 belongs to the prompt.
  FakeStep step = tokens({5, 3, 5, 5, 5, 7, 9}, "apaaaa.");
  expect_close(weights_of(*frequency, step, Weights::Meaning::by_target),
               {1, 1, std::sqrt(3 / 4.0), std::sqrt(3 / 4.0), std::sqrt(3 / 4.0), std::sqrt(3 / 2.0), 1});
  const Tensor counts = step.pipeline_state.at("counts");
  EXPECT_EQ(counts.numel(), step.vocab_size());
  EXPECT_EQ(counts.sum().item<double>(), 4);
  EXPECT_EQ(counts[5].item<double>(), 3);

  FakeStep next = tokens({1, 7, 7}, "aaa");
  next.pipeline_state = step.pipeline_state;
  next.other_sums = {at::zeros({16}, at::kDouble).index_fill(0, at::tensor({int64_t{5}}), 6)};
  // 5 has been a target nine times by now, 7 three times.
  expect_close(weights_of(*frequency, next, Weights::Meaning::by_target), {1, 1.5, 1.5});
}

TEST(Frequency, GivesTheMostFrequentTokenWeightOneWithoutSmoothing) {
  FakeStep step = tokens({0, 4, 4, 4, 8}, "aaaaa");
  expect_close(weights_of("frequency", step, {{"power", 1.0}, {"smoothing", 0.0}}, Weights::Meaning::by_target),
               {1, 1, 1, 1, 3});
}

TEST(PromptWeight, WeighsPromptsAndLeavesAnswersAtOne) {
  const auto prompt_weight = test::weighting("prompt_weight", {{"weight", 0.25}});
  EXPECT_TRUE(prompt_weight->needs().prompts);
  EXPECT_EQ(prompt_weight->needs().when, When::before);
  FakeStep step = tokens({1, 2, 3, 4, 5}, "ppaa.");
  expect_close(weights_of(*prompt_weight, step, Weights::Meaning::by_target), {0.25, 0.25, 1, 1, 1});
}

/// Losses of four heads, which predict the tokens 1 to 4 positions after their source. Of token 1: 1; of token 2: -4,
/// 0; of token 3: 9, 0, 0; of token 4: 4, -4, 0, 0. Those of the reference are 0.
FakeStep four_heads() {
  const Tensor sources = at::arange(5).unsqueeze(1), valid = sources.add(at::arange(1, 5)).lt(5).unsqueeze(0);
  FakeStep step = step_with("policy.loss", at::zeros({1, 5, 4}), valid);
  step.signals["policy.loss"].select(-1, 0).copy_(row({1, -4, 9, 4, 0}));
  step.signals["policy.loss"].select(-1, 1).copy_(row({0, 0, -4, 0, 0}));
  step.signals["reference.loss"] = at::zeros({1, 5, 4});
  return step;
}

TEST(MeanExcess, KeepsTheSameTokensInAllHeads) {
  FakeStep step = four_heads();
  const Tensor weights = weights_of("mean_excess", step, {{"keep", 0.5}}, Weights::Meaning::by_target);
  // The means are 1, -2, 3 and 0, and their 0.5-quantile 0.5. By head 1 alone, tokens 3 and 4 would be kept.
  expect_close(weights, {0, 1, 0, 1, 0});
  EXPECT_EQ(step.num_collectives, 1);
  EXPECT_EQ(step.metrics.at("mean_excess/selection_ratio"), (Metric{4, 10})) << "of all heads";
  FakeStep all = four_heads();
  expect_close(weights_of("mean_excess", all, {{"keep", 1.0}}, Weights::Meaning::by_target), {0, 1, 1, 1, 1});
  EXPECT_EQ(all.num_collectives, 0);
}

}  // namespace
}  // namespace wmtp
