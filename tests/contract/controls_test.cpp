// The controls: random weights, and another weighting's weights assigned to random tokens, or to a token in every head.
#include <gtest/gtest.h>

#include "fake_step.hpp"
#include "made_plugin.hpp"
#include "plugin_files.hpp"

namespace wmtp {
namespace {

using test::FakeStep;
using Meaning = Weights::Meaning;

Tensor sorted(const Tensor& values) { return std::get<0>(at::sort(values.contiguous().flatten())); }

/// An inner weighting that returns the test's weights.
struct Given final : Weighting {
  explicit Given(Weights weights, Needs needs = {}) : weights_(std::move(weights)), needs_(std::move(needs)) {}
  Needs needs() const override { return needs_; }
  Weights weigh(TokenStep&) override { return weights_; }
  Tensor value_loss(ValueStep&) override { return at::full({}, 3.0); }
  Weights weights_;
  Needs needs_;
};

Weights shuffled(Given& inner, FakeStep& step) { return test::weigh(*test::weighting("shuffled", {}, &inner), step); }

/// Distinct weights, so that each shows which position it came from.
Tensor numbered(at::IntArrayRef shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(1, count + 1, at::kFloat).reshape(shape);
}

TEST(Shuffled, KeepsTheWeightsOfEachSequenceAndHeadAmongItsValidTokens) {
  at::manual_seed(2);
  const Tensor valid = at::rand({3, 40, 4}) < 0.7;
  FakeStep step(valid);
  step.head_in_hand = 0;
  Given inner(Weights::by_source(numbered({3, 40, 4})));
  const Weights weights = shuffled(inner, step);
  ASSERT_EQ(weights.meaning, Meaning::by_source);
  const Tensor before = inner.weights_.values, after = weights.values;
  ASSERT_EQ(after.sizes(), before.sizes());
  EXPECT_TRUE(at::equal(after.masked_select(valid.logical_not()), before.masked_select(valid.logical_not())));
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t h = 0; h < 4; ++h) {
      const Tensor here = valid[b].select(-1, h);
      const Tensor was = before[b].select(-1, h).masked_select(here), is = after[b].select(-1, h).masked_select(here);
      EXPECT_FALSE(at::equal(was, is)) << "nothing moved";
      EXPECT_TRUE(at::equal(sorted(was), sorted(is)));
      EXPECT_EQ(was.sum().item<float>(), is.sum().item<float>()) << "whole numbers: sums are exact";
    }
}

TEST(Shuffled, EveryOrderIsAsLikely) {
  std::map<std::vector<int64_t>, int> seen;
  const int64_t sequences = 6000;
  FakeStep step(at::tensor(std::vector<int64_t>{1, 0, 1, 1}).to(at::kBool).expand({sequences, 4}));
  Given inner(Weights::by_source(at::tensor({1.0F, 9.0F, 2.0F, 3.0F}).expand({sequences, 4})));
  const Tensor after = shuffled(inner, step).values.to(at::kLong).contiguous();
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t* place = after[b].const_data_ptr<int64_t>();
    EXPECT_EQ(place[1], 9);
    ++seen[{place[0], place[2], place[3]}];
  }
  ASSERT_EQ(seen.size(), 6U);
  for (const auto& [order, times] : seen) EXPECT_NEAR(times, 1000, 150);
}

TEST(Shuffled, PermutesWeightsByTargetAmongTheTargets) {
  FakeStep step = [] {
    const Tensor target = test::answer_batch({"pppaaaaaaaaaaaaaaaa.", "aaaaaaaaaaaaaaaaaaaa"}, {1, 0}).kind.eq(2);
    const Tensor valid = at::zeros({2, 20, 3}, at::kBool);
    for (int64_t k = 1; k <= 3; ++k) valid.select(-1, k - 1).narrow(1, 0, 20 - k).copy_(target.narrow(1, k, 20 - k));
    return FakeStep(valid);
  }();
  step.head_in_hand = 0;
  Given inner(Weights::by_target(numbered({2, 20})));
  const Weights weights = shuffled(inner, step);
  ASSERT_EQ(weights.meaning, Meaning::by_target);
  const Tensor before = inner.weights_.values, after = weights.values;
  for (const int64_t place : {0, 1, 2, 19}) EXPECT_EQ(after[0][place].item<float>(), before[0][place].item<float>());
  EXPECT_EQ(after[1][0].item<float>(), before[1][0].item<float>()) << "nothing predicts the first token";
  EXPECT_TRUE(at::equal(sorted(after[0]), sorted(before[0])));
  EXPECT_TRUE(at::equal(sorted(after[1]), sorted(before[1])));
  EXPECT_FALSE(at::equal(after, before));
}

TEST(Shuffled, FindsTheTargetsOfAHeadByItsOffset) {
  for (const int64_t stride : {1, 3}) {
    const int64_t offset = 1 + 2 * stride, S = 20;  // of head 3
    const Tensor target = test::answer_batch({"pppppppppaaaaaaaa..."}, {1}).kind.eq(2);
    FakeStep step(at::constant_pad_nd(target.narrow(1, offset, S - offset), {0, offset}));
    step.head_in_hand = 3;
    step.stride = stride;
    Given inner(Weights::by_target(numbered({1, S}), 1), {.when = When::head});
    const Tensor before = inner.weights_.values, after = shuffled(inner, step).values;
    const Tensor moved = after.ne(before);
    EXPECT_TRUE(moved.any().item<bool>()) << stride;
    EXPECT_FALSE(moved.logical_and(target.logical_not()).any().item<bool>()) << stride << ": " << moved;
  }
}

TEST(Shuffled, UniformStaysUniform) {
  FakeStep step(at::ones({2, 5, 4}, at::kBool));
  Given inner(Weights::uniform());
  EXPECT_EQ(shuffled(inner, step).meaning, Meaning::uniform);
}

TEST(Shuffled, NeedsWhatTheInnerOneNeedsButWholeSequences) {
  Given inner(Weights::uniform(), {.when = When::token, .reads = {Signal::policy_loss}, .signed_weights = true});
  const auto around = test::weighting("shuffled", {}, &inner);
  EXPECT_EQ(around->needs().when, When::head);
  EXPECT_EQ(around->needs().reads.size(), 1U);
  EXPECT_TRUE(around->needs().signed_weights);
  for (const When when : {When::before, When::head, When::all}) {
    inner.needs_.when = when;
    EXPECT_EQ(around->needs().when, when);
  }
  FakeStep step(at::ones({1, 2}, at::kBool));
  EXPECT_EQ(around->value_loss(step).item<double>(), 3);
}

TEST(Shuffled, WorksAroundAWeightingThatDrawsByItself) {
  FakeStep step(at::ones({4, 200, 1}, at::kBool));
  step.head_in_hand = 0;
  const auto inner = test::weighting("random", {{"keep", 0.5}});
  const Tensor own = test::weigh(*inner, step).values;
  const Tensor after = test::weigh(*test::weighting("shuffled", {}, inner.get()), step).values;
  EXPECT_TRUE(at::equal(own.sum(1), after.sum(1)));
  EXPECT_FALSE(at::equal(own, after));
  const Tensor first = after.narrow(1, 0, 100).mean();
  EXPECT_NEAR(first.item<float>(), 0.5, 0.15) << "kept tokens must not gather at one end";
}

TEST(FirstHead, GivesATokenTheWeightOfHead1InEveryHead) {
  for (const int64_t stride : {1, 2}) {
    FakeStep step(at::ones({2, 12}, at::kBool));
    step.stride = stride;
    Given inner(Weights::by_source(numbered({2, 12}), 0.5), {.when = When::head});
    const auto around = test::weighting("first_head", {}, &inner);
    const Weights first = test::weigh(*around, step);
    EXPECT_EQ(first.meaning, Meaning::by_source);
    EXPECT_EQ(first.max_nonzero_share, 0.5);
    inner.weights_ = Weights::by_source(at::zeros({2, 12}));
    for (int64_t head = 2; head <= 4; ++head) {
      step.head_in_hand = head;
      const Weights later = test::weigh(*around, step);
      ASSERT_EQ(later.meaning, Meaning::by_target);
      EXPECT_EQ(later.max_nonzero_share, 1);
      for (int64_t target = step.offset(head); target < 12; ++target)  // its source in head 1 is the token before
        EXPECT_EQ(later.values[1][target].item<float>(), first.values[1][target - 1].item<float>());
    }
  }
}

TEST(FirstHead, TakesHead1OfWeightsOfAllHeads) {
  FakeStep step(at::ones({2, 6, 4}, at::kBool));
  step.head_in_hand = 0;
  Given inner(Weights::by_source(numbered({2, 6, 4})), {.when = When::all});
  const Weights weights = test::weigh(*test::weighting("first_head", {}, &inner), step);
  ASSERT_EQ(weights.meaning, Meaning::by_target);
  EXPECT_TRUE(at::equal(weights.values.narrow(1, 1, 5), inner.weights_.values.select(-1, 0).narrow(1, 0, 5)));
  inner.weights_ = Weights::by_target(numbered({2, 6}));
  EXPECT_TRUE(at::equal(test::weigh(*test::weighting("first_head", {}, &inner), step).values, inner.weights_.values));
  inner.weights_ = Weights::uniform();
  EXPECT_EQ(test::weigh(*test::weighting("first_head", {}, &inner), step).meaning, Meaning::uniform);
}

TEST(Random, KeepsAShareOfTheValidTokens) {
  FakeStep step(at::rand({20, 200, 4}) < 0.5);
  step.head_in_hand = 0;
  const Weights weights = test::weigh(*test::weighting("random", {{"keep", 0.3}}), step);
  ASSERT_EQ(weights.meaning, Meaning::by_source);
  EXPECT_EQ(weights.values.masked_select(step.valid().logical_not()).sum().item<float>(), 0);
  EXPECT_TRUE(weights.values.eq(0).logical_or(weights.values.eq(1)).all().item<bool>());
  const auto [sum, count] = step.metrics.at("random/selection_ratio");
  EXPECT_EQ(count, step.valid().sum().item<double>());
  EXPECT_NEAR(sum / count, 0.3, 0.02);
}

TEST(Random, LogNormalWeightsHaveTheMeanAndDeviationThatWereAskedFor) {
  FakeStep step(at::ones({50, 4000, 1}, at::kBool));
  step.head_in_hand = 0;
  const Weights weights = test::weigh(
      *test::weighting("random", {{"kind", std::string("lognormal")}, {"min", 0.0}, {"max", 1000.0}}), step);
  ASSERT_EQ(weights.meaning, Meaning::by_target);
  ASSERT_EQ(weights.values.sizes(), at::IntArrayRef({50, 4000}));
  EXPECT_NEAR(weights.values.mean().item<float>(), 1.328, 0.01);
  EXPECT_NEAR(weights.values.std().item<float>(), 0.981, 0.03);
  const Tensor logarithms = weights.values.log();
  // sigma^2 = ln(1 + (0.981 / 1.328)^2) = 0.4356, mu = ln(1.328) - 0.2178 = 0.0659
  EXPECT_NEAR(logarithms.mean().item<float>(), 0.0659, 0.006);
  EXPECT_NEAR(logarithms.std().item<float>(), std::sqrt(0.4356), 0.005);
}

TEST(Random, LogNormalWeightsAreClamped) {
  FakeStep step(at::ones({50, 4000, 1}, at::kBool));
  step.head_in_hand = 0;
  const Tensor values = test::weigh(*test::weighting("random", {{"kind", std::string("lognormal")}}), step).values;
  EXPECT_FLOAT_EQ(values.min().item<float>(), 0.1F);
  EXPECT_FLOAT_EQ(values.max().item<float>(), 3.0F);
}

TEST(Random, OptionsThatContradictAreRefused) {
  const std::string lognormal = "lognormal";
  const auto refused_option = [](const OptionValues& o) { return test::refused_option<Weighting>("random", o); };
  EXPECT_EQ(refused_option({{"kind", lognormal}, {"min", 2.0}, {"max", 1.0}}), "min");
  EXPECT_EQ(refused_option({{"kind", lognormal}, {"keep", 0.5}}), "keep");
  EXPECT_EQ(refused_option({{"mean", 2.0}}), "mean");
  EXPECT_EQ(refused_option({{"kind", lognormal}, {"keep", 0.6}}), "keep") << "with the value of the default";
  EXPECT_EQ(refused_option({{"kind", lognormal}, {"mean", 2.0}}), "");
}

}  // namespace
}  // namespace wmtp
