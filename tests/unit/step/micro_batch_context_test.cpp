#include "step/micro_batch_context.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <type_traits>

#include "base/error.hpp"
#include "support/ranks.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

constexpr int64_t num_sequences = 2, positions = 6, num_heads = 3;

class MicroBatchContextTest : public testing::Test {
 protected:
  MicroBatchContextTest() : windows_(random_windows(1, positions, 50)) {}
  MicroBatch micro_of(const std::vector<int64_t>& at_positions) const {
    BatchRequest request;
    request.heads = num_heads;
    const auto source = window_batches(*windows_, WindowOrder(1, windows_->count(), DataOrder::sequential),
                                       num_sequences, positions, request);
    return source->fetch(at_positions, 0, 1);
  }
  MicroBatchContext step_with(const MicroBatch& micro, std::map<std::string, Tensor> frozen = {}, int64_t number = 1) {
    return {run_context_, {number, counts_, totals_}, micro, std::move(frozen)};
  }
  /// Loss at source position s of sequence b: 100 b + s.
  static Tensor reference() {
    return at::arange(positions, at::kFloat) + 100 * at::arange(num_sequences, at::kFloat).unsqueeze(1);
  }
  /// [B,S] for head k: the reference's loss of target s + k, which is at its source s + k - 1.
  static Tensor aligned(int64_t head) {
    Tensor expected = at::zeros({num_sequences, positions});
    for (int64_t b = 0; b < num_sequences; ++b)
      for (int64_t s = 0; s + head < positions; ++s) expected[b][s] = float(100 * b + s + head - 1);
    return expected;
  }
  /// [B,S,H] of a reference with heads: 1000 k + 100 b + s.
  static Tensor of_heads() { return reference().unsqueeze(2) + 1000 * at::arange(1, num_heads + 1, at::kFloat); }
  static WeighContext weigh_context(When when, int64_t head, const Tensor& valid, const Tensor& loss = {}) {
    WeighContext weigh_context;
    weigh_context.when = when;
    weigh_context.head = head;
    weigh_context.valid = valid;
    weigh_context.policy.losses = loss;
    return weigh_context;
  }

  SingleRank rank_;
  RankCollectives across_{rank_.channels};
  std::map<std::string, Tensor> states_;
  StepTotals totals_;
  StepCounts counts_{{7, 7, 7}, 24, 20, 0};
  RunContext run_context_{num_heads, 50, 42, /*total_steps=*/10, across_, states_};
  std::unique_ptr<TokenWindows> windows_;
};

TEST_F(MicroBatchContextTest, EachNamedReferenceIsReadByItsName) {
  const MicroBatch micro = micro_of({0, 1});
  MicroBatchContext step = step_with(micro, {{"reference.loss", reference()},
                                             {"references.amateur.loss", reference() + 7},
                                             {"references.amateur.entropy", of_heads()}});
  const Tensor valid = micro.sources(2);
  step.enter(weigh_context(When::head, 2, valid));
  const ReferenceSignal loss{"amateur", Signal::reference_loss}, entropy{"amateur", Signal::reference_entropy};
  EXPECT_TRUE(at::equal(step.signal(Signal::reference_loss), aligned(2) * valid));
  EXPECT_TRUE(at::equal(step.signal(loss), (aligned(2) + 7) * valid));
  EXPECT_TRUE(at::equal(step.signal(entropy), of_heads().select(2, 1) * valid));
  EXPECT_THROW(step.signal(ReferenceSignal{"expert", Signal::reference_loss}), Error);
}

TEST_F(MicroBatchContextTest, TheReferenceIsAlignedWithTheTargetOfEachHead) {
  const MicroBatch micro = micro_of({0, 1});
  MicroBatchContext step = step_with(micro, {{"reference.loss", reference()}});
  for (int64_t head = 1; head <= num_heads; ++head) {
    step.enter(weigh_context(When::head, head, valid_sources(micro.targets, head)));
    EXPECT_TRUE(at::equal(step.signal(Signal::reference_loss), aligned(head))) << "head " << head;
    EXPECT_EQ(step.head(), head);
  }
}

TEST_F(MicroBatchContextTest, SignalsFollowTheOffsetsOfTheHeads) {
  MicroBatch micro = micro_of({0, 1});
  micro.offsets = {1, 3, 5};
  micro.signals["data.weight"] = reference();  // of the token at each position
  MicroBatchContext step = step_with(micro, {{"reference.loss", reference()}});
  std::vector<Tensor> all;
  for (int64_t head = 1; head <= num_heads; ++head) {
    const int64_t offset = 2 * head - 1;
    EXPECT_EQ(step.offset(head), offset);
    step.enter(weigh_context(When::head, head, micro.sources(head)));
    all.push_back(step.signal(Signal::reference_loss));
    EXPECT_TRUE(at::equal(all.back(), aligned(offset))) << "head " << head;
    const Tensor weights = step.signal(Signal::data_weight);
    EXPECT_TRUE(
        at::equal(weights, at::constant_pad_nd(reference().narrow(1, offset, positions - offset), {0, offset})));

    WeighContext chunk = weigh_context(When::token, head, at::ones({num_sequences}, at::kBool));
    chunk.sources = {0, 1};
    step.enter(chunk);
    EXPECT_TRUE(at::equal(step.signal(Signal::reference_loss), all.back().select(1, 0))) << "head " << head;
    EXPECT_TRUE(at::equal(step.signal(Signal::data_weight), weights.select(1, 0))) << "head " << head;
  }
  step.enter(weigh_context(When::before, 0, at::ones({num_sequences, positions, num_heads}, at::kBool)));
  EXPECT_TRUE(at::equal(step.signal(Signal::reference_loss), at::stack(all, -1)));
  EXPECT_THROW(step.offset(4), std::out_of_range) << "a plugin may ask for a head that there is not";
}

TEST_F(MicroBatchContextTest, AWriteIntoATensorThatTheHostGoesOnUsingIsRefused) {
  const MicroBatch micro = micro_of({0, 1});
  MicroBatchContext step = step_with(micro, {{"value.value", reference()}});
  const Tensor valid = valid_sources(micro.targets, 1), losses = at::ones_like(valid, at::kFloat);
  const auto found_after = [&](When when, const std::function<void()>& write) -> std::string {
    step.enter(weigh_context(when, 1, valid, losses));
    write();
    try {
      step.leave();
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::plugin);
      const std::string text = error.what();
      return text.substr(0, text.find(','));
    }
  };
  EXPECT_EQ(found_after(When::head, [&] { losses.clone().mul_(2); }), "");
  EXPECT_EQ(found_after(When::head, [&] { step.batch().tokens.narrow(1, 0, 1).add_(1); }),
            "it wrote into batch().tokens");
  EXPECT_EQ(found_after(When::head, [&] { step.batch().correct.mutable_data_ptr<int64_t>()[0] ^= 1; }),
            "it wrote into batch().correct");
  EXPECT_EQ(found_after(When::head, [&] { step.value(ValueSignal::frozen()).zero_(); }), "it wrote into value.value");
  EXPECT_EQ(found_after(When::token, [&] { step.signal(Signal::policy_loss).neg_(); }), "it wrote into policy.loss");
  EXPECT_EQ(found_after(When::token, [&] { step.valid().logical_not_(); }), "it wrote into valid()");
}

TEST_F(MicroBatchContextTest, TheReferenceOfAllHeadsIsStackedByHead) {
  const MicroBatch micro = micro_of({0, 1});
  MicroBatchContext step = step_with(micro, {{"reference.loss", reference()}});
  step.enter(weigh_context(When::before, 0, at::ones({num_sequences, positions, num_heads}, at::kBool)));
  const Tensor all = step.signal(Signal::reference_loss);
  ASSERT_EQ(all.sizes(), (at::IntArrayRef{num_sequences, positions, num_heads}));
  for (int64_t head = 1; head <= num_heads; ++head) EXPECT_TRUE(at::equal(all.select(2, head - 1), aligned(head)));
}

TEST_F(MicroBatchContextTest, AHeadIsComparedWithTheReferencesOwnHeadAtTheSameSource) {
  const MicroBatch micro = micro_of({0, 1});
  MicroBatchContext step = step_with(micro, {{"reference.loss", of_heads()}});
  std::vector<Tensor> valid, wanted;
  for (int64_t head = 1; head <= num_heads; ++head) {
    valid.push_back(valid_sources(micro.targets, head));
    wanted.push_back(of_heads().select(2, head - 1) * valid.back());
    step.enter(weigh_context(When::head, head, valid.back()));
    EXPECT_TRUE(at::equal(step.signal(Signal::reference_loss), wanted.back())) << "head " << head;

    WeighContext chunk = weigh_context(When::token, head, at::ones({2 * num_sequences}, at::kBool));
    chunk.sources = {1, 2};
    step.enter(chunk);
    EXPECT_TRUE(at::equal(step.signal(Signal::reference_loss), wanted.back().narrow(1, 1, 2).flatten()))
        << "head " << head;
  }
  step.enter(weigh_context(When::before, 0, at::stack(valid, -1)));
  EXPECT_TRUE(at::equal(step.signal(Signal::reference_loss), at::stack(wanted, -1)));
}

TEST_F(MicroBatchContextTest, ASignalOfTheDataIsAlignedWithTheTokenThatAHeadPredicts) {
  MicroBatch micro = micro_of({0, 1});
  micro.signals["data.weight"] = reference();  // of the token at each position
  MicroBatchContext step = step_with(micro);
  const auto of_target = [](int64_t head) {
    return at::constant_pad_nd(reference().narrow(1, head, positions - head), {0, head});
  };
  std::vector<Tensor> valid, wanted;
  for (int64_t head = 1; head <= num_heads; ++head) {
    valid.push_back(valid_sources(micro.targets, head));
    wanted.push_back(of_target(head));
    step.enter(weigh_context(When::head, head, valid.back()));
    EXPECT_TRUE(at::equal(step.signal(Signal::data_weight), wanted.back())) << "head " << head;
    WeighContext chunk = weigh_context(When::token, head, at::ones({2 * num_sequences}, at::kBool));
    chunk.sources = {1, 2};
    step.enter(chunk);
    EXPECT_TRUE(at::equal(step.signal(Signal::data_weight), wanted.back().narrow(1, 1, 2).flatten()))
        << "head " << head;
  }
  step.enter(weigh_context(When::before, 0, at::stack(valid, -1)));
  EXPECT_TRUE(at::equal(step.signal(Signal::data_weight), at::stack(wanted, -1)));
}

TEST_F(MicroBatchContextTest, TheReferenceOfAChunkCoversItsRows) {
  const MicroBatch micro = micro_of({0, 1});
  MicroBatchContext step = step_with(micro, {{"reference.loss", reference()}});
  const int64_t head = 2;
  const Tensor rows = aligned(head).narrow(1, 0, positions - head).reshape({-1});
  WeighContext chunk = weigh_context(When::token, head, at::ones({3}, at::kBool));
  chunk.chunk_begin = 4;
  chunk.sources = {0, positions - head};
  step.enter(chunk);
  EXPECT_TRUE(at::equal(step.signal(Signal::reference_loss), rows.narrow(0, 4, 3)));
}

TEST_F(MicroBatchContextTest, TheReferenceOfARankWithAPartOfThePositionsCoversItsRows) {
  const MicroBatch micro = micro_of({0, 1});
  MicroBatchContext step = step_with(micro, {{"reference.loss", reference()}});
  const int64_t head = 2;
  WeighContext chunk = weigh_context(When::token, head, at::ones({2 * num_sequences}, at::kBool));
  chunk.sources = {1, 2};
  step.enter(chunk);
  EXPECT_TRUE(at::equal(step.signal(Signal::reference_loss), aligned(head).narrow(1, 1, 2).flatten()));
}

TEST_F(MicroBatchContextTest, AHeadWithoutATargetHasAReferenceOfZeros) {
  run_context_.heads = positions + 1;
  const MicroBatch micro = micro_of({0, 1});
  MicroBatchContext step = step_with(micro, {{"reference.loss", reference()}});
  step.enter(weigh_context(When::head, positions + 1, at::zeros({num_sequences, positions}, at::kBool)));
  EXPECT_TRUE(at::equal(step.signal(Signal::reference_loss), at::zeros({num_sequences, positions})));
}

TEST_F(MicroBatchContextTest, AnUnavailableSignalIsRefusedByName) {
  const MicroBatch micro = micro_of({0, 1});
  MicroBatchContext step = step_with(micro);
  step.enter(weigh_context(When::before, 0, at::ones({num_sequences, positions, num_heads}, at::kBool)));
  const auto expect_refused = [](const std::string& name, const auto& read) {
    EXPECT_SAYS(test::refusal(ExitStatus::plugin, read), name);
  };
  expect_refused("policy.loss", [&] { step.signal(Signal::policy_loss); });
  expect_refused("reference.loss", [&] { step.signal(Signal::reference_loss); });
  expect_refused("policy.value:x", [&] { step.value(ValueSignal::of_policy("x")); });
  expect_refused("policy.value:x", [&] { step.leaf(ValueSignal::of_policy("x")); });
  expect_refused("value.value", [&] { step.value(ValueSignal::frozen()); });
}

TEST_F(MicroBatchContextTest, UniformNumbersDoNotDependOnTheSplitOfTheBatch) {
  const auto draw = [&](const std::vector<int64_t>& at_positions) {
    const MicroBatch micro = micro_of(at_positions);
    MicroBatchContext step = step_with(micro);
    step.enter(
        weigh_context(When::before, 0, at::ones({int64_t(at_positions.size()), positions, num_heads}, at::kBool)));
    return step.uniform(0);
  };
  const Tensor whole = draw({4, 5, 6, 7});
  EXPECT_TRUE(at::equal(draw({6, 7}), whole.narrow(0, 2, 2)));
  EXPECT_TRUE(at::equal(draw({5}), whole.narrow(0, 1, 1)));
  EXPECT_TRUE(at::equal(draw({7, 4}), at::stack({whole[3], whole[0]})));
}

TEST_F(MicroBatchContextTest, UniformNumbersOfAHeadAreTheSameForOneHeadOrAll) {
  const MicroBatch micro = micro_of({0, 1});
  MicroBatchContext step = step_with(micro);
  step.enter(weigh_context(When::all, 0, at::ones({num_sequences, positions, num_heads}, at::kBool)));
  const Tensor together = step.uniform(0);
  for (int64_t head = 1; head <= num_heads; ++head) {
    step.enter(weigh_context(When::head, head, at::ones({num_sequences, positions}, at::kBool)));
    EXPECT_TRUE(at::equal(step.uniform(0), together.select(2, head - 1))) << "head " << head;
  }
}

TEST_F(MicroBatchContextTest, UniformNumbersDifferByStreamStepPositionAndHeadAndAreUniform) {
  std::vector<int64_t> many(400);
  for (size_t i = 0; i < many.size(); ++i) many[i] = int64_t(i);
  const MicroBatch micro = micro_of(many);
  MicroBatchContext step = step_with(micro);
  step.enter(weigh_context(When::before, 0, at::ones({400, positions, num_heads}, at::kBool)));
  const Tensor first = step.uniform(0), other_stream = step.uniform(1);
  MicroBatchContext next = step_with(micro, {}, 2);
  next.enter(weigh_context(When::before, 0, at::ones({400, positions, num_heads}, at::kBool)));
  const Tensor next_step = next.uniform(0);
  EXPECT_FALSE(at::equal(first, other_stream));
  EXPECT_FALSE(at::equal(first, next_step));
  EXPECT_GE(first.min().item<float>(), 0.0F);
  EXPECT_LT(first.max().item<float>(), 1.0F);
  EXPECT_NEAR(first.mean().item<double>(), 0.5, 0.02);
  const auto shared = [](const Tensor& a, const Tensor& b) { return (a == b).to(at::kFloat).mean().item<float>(); };
  EXPECT_LT(shared(first, next_step), 0.01F);
  EXPECT_LT(shared(first.select(1, 0), first.select(1, 1)), 0.01F);
  EXPECT_LT(shared(first.select(2, 0), first.select(2, 1)), 0.01F);
}

TEST_F(MicroBatchContextTest, CollectivesAndRandomNumbersDoNotExistWithinTheLoss) {
  static_assert(!std::is_base_of_v<WholeBatch, TokenStep>);
  static_assert(!std::is_base_of_v<TokenStep, ValueStep>, "a loss over value heads reads only values");
}

TEST_F(MicroBatchContextTest, AFrozenValueIsTheSameAtEveryMoment) {
  const MicroBatch micro = micro_of({0, 1});
  const Tensor values = at::randn({2, positions});
  MicroBatchContext step = step_with(micro, {{"value.value", values}});
  step.enter(weigh_context(When::before, 0, micro.targets));
  EXPECT_TRUE(at::equal(step.value(ValueSignal::frozen()), values));
}

TEST_F(MicroBatchContextTest, StatePersistsAndStartsAsTheFirstValueGiven) {
  const MicroBatch micro = micro_of({0});
  const Tensor first = at::zeros({2});
  step_with(micro).state("mean", first).add_(1.5);
  EXPECT_TRUE(at::equal(first, at::zeros({2}))) << "the plugin's tensor is not modified";
  EXPECT_TRUE(at::equal(step_with(micro, {}, 2).state("mean", at::zeros({2})), at::full({2}, 1.5)));
  EXPECT_TRUE(at::equal(states_.at("mean"), at::full({2}, 1.5)));
}

TEST_F(MicroBatchContextTest, MetricsAddUpAsSumAndCount) {
  const MicroBatch micro = micro_of({0});
  step_with(micro).metric("ratio", at::full({}, 3.0), at::full({}, 4.0));
  step_with(micro).metric("ratio", at::full({}, 1.0), at::full({}, 4.0));
  totals_.exchange(rank_.channels);
  EXPECT_EQ(totals_.sum("plugin_sum/ratio") / totals_.sum("plugin_count/ratio"), 0.5);
}

TEST_F(MicroBatchContextTest, MetricNamesAreSafeInFilesAndPages) {
  const Tensor one = at::ones({});
  const MicroBatch micro = micro_of({0});
  MicroBatchContext step = step_with(micro);
  for (const std::string name : {"a", "rho1/excess_mean", "A-b_c.9/d..e/f", "x.", ".x"})
    EXPECT_NO_THROW(step.metric(name, one, one)) << name;
  for (const std::string name :
       {"", "/a", "a/", "a//b", ".", "../../x", "a/../b", "a/.", "a b", "a\nb", "\x1b[2J", "é", "a\\b"})
    EXPECT_THROW(step.metric(name, one, one), std::invalid_argument) << name;
  EXPECT_THROW(step.metric(std::string(121, 'x'), one, one), std::invalid_argument);
}

}  // namespace
}  // namespace wmtp
