// Validation's metrics besides the loss: exact match by difficulty, token classes since the first validation, an
// objective's metrics; validating changes nothing else.
#include "train/validation.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "support/answers.hpp"
#include "support/ranks.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

using test::Answer;
using test::Answers;
using test::TinyParts;
using test::TinyTraining;

constexpr int64_t S = 12, heads = 1;

std::vector<int64_t> random_tokens(int64_t seed, int64_t count) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(10 + int64_t(philox(uint64_t(seed), uint64_t(i), 0)[0] % 30));
  return tokens;
}

/// Four tokens of noise, and then always the same answer.
Answer learnable(int64_t seed) {
  std::vector<int64_t> tokens = random_tokens(seed, 4);
  for (const int64_t token : {1, 2, 3, 4, 5}) tokens.push_back(token);
  return {tokens, 4, 1, 0};
}

/// In turn: an answer that can be learned, one that cannot, and one of the first kind that is marked wrong.
Answer mixed(int64_t position) {
  if (position % 3 == 1) return {random_tokens(5000 + position, 9), 4, 1, 1};
  Answer answer = learnable(9000 + position);
  answer.correct = position % 3 == 2 ? 0 : 1;
  return answer;
}

class ValidationTest : public testing::Test {
 protected:
  ValidationTest() {
    experiment_.model.future_tokens = heads;
    experiment_.model.layers = 2;
    experiment_.data.kind = DataKind::records;
  }
  std::map<std::string, double> after_training(Channels& channels, bool prompts, int steps) {
    const Answers training(learnable, experiment_.train.batch_size, S, experiment_.model.future_tokens, prompts),
        validation(mixed, experiment_.train.batch_size, S, experiment_.model.future_tokens, prompts,
                   {"easy", "hard", "unheard of"});
    TinyTraining tiny(experiment_, test::baseline(), channels,
                      {.training = &training, .validation = &validation, .validation_sequences = 9});
    for (int i = 0; i < steps; ++i) tiny->step();
    return tiny->validate();
  }

  Experiment experiment_ = test::tiny_experiment();
};

TEST_F(ValidationTest, FindsTheRightAnswersThatGreedyDecodingGivesByDifficulty) {
  SingleRank rank;
  for (const bool prompts : {false, true}) {  // prompts as targets are still not part of an answer
    const auto metrics = after_training(rank.channels, prompts, 60);
    EXPECT_EQ(metrics.at("valid/exact_match/easy"), 1) << prompts;
    EXPECT_EQ(metrics.at("valid/exact_match/hard"), 0) << prompts;
    EXPECT_EQ(metrics.at("valid/exact_match"), 0.5) << "three learnable right answers of six";
    EXPECT_EQ(metrics.count("valid/exact_match/unheard of"), 0U) << "no answer in that bin";
  }
  EXPECT_EQ(after_training(rank.channels, false, 0).at("valid/exact_match"), 0);
}

TEST_F(ValidationTest, ReportsALossPerBinWhoseMeanIsTheTotalLoss) {
  SingleRank rank;
  const auto metrics = after_training(rank.channels, false, 60);
  const double easy = metrics.at("valid/ce_head_1/easy"), hard = metrics.at("valid/ce_head_1/hard");
  EXPECT_LT(easy, 0.5 * hard);
  EXPECT_NEAR((6 * easy + 3 * hard) / 9, metrics.at("valid/ce_head_1"), 1e-6) << "answers of equal length";
  EXPECT_EQ(metrics.count("valid/ce_head_1/unheard of"), 0U);
}

TEST_F(ValidationTest, CountsTheDraftsThatDecodingWouldAccept) {
  experiment_.model.future_tokens = 3;
  experiment_.model.layers = 4;
  SingleRank rank;
  const auto source = [&](auto sequence) { return Answers(sequence, experiment_.train.batch_size, S, 3); };
  const Answers training = source([](int64_t) { return Answer{{11, 12, 13, 14, 1, 2, 3, 4, 5}, 4, 1, 1}; });
  const Answers noise = source([](int64_t position) { return Answer{random_tokens(position, 9), 4, 1, 1}; });
  TinyTraining tiny(experiment_, test::baseline(), rank.channels, {.training = &training, .validation_sequences = 6});
  for (int i = 0; i < 80; ++i) tiny->step();
  const auto learned = tiny->validate();
  for (const std::string name :
       {"accuracy_head_1", "accuracy_head_2", "accuracy_head_3", "accept_head_2", "accept_head_3"})
    EXPECT_EQ(learned.at("valid/" + name), 1) << name;
  EXPECT_EQ(learned.count("valid/accept_head_1"), 0U) << "its token is no draft";
  EXPECT_EQ(learned.at("valid/tokens_per_pass"), 2.5) << "five tokens: of head 2, 3 and then 1; of head 2 and 3";
  TinyTraining untrained(experiment_, test::baseline(), rank.channels, {.training = &noise, .validation_sequences = 6});
  const auto guessed = untrained->validate();
  EXPECT_LT(guessed.at("valid/accuracy_head_2"), 0.3);
  EXPECT_LE(guessed.at("valid/accept_head_3"), guessed.at("valid/accept_head_2"));
  EXPECT_GE(guessed.at("valid/tokens_per_pass"), 1);
}

TEST_F(ValidationTest, CountsTheDraftsOfHeadsThatLookBack) {
  experiment_.model.future_tokens = 2;
  experiment_.model.layers = 3;
  experiment_.model.future_offsets = {1, 3};
  SingleRank rank;
  const auto sequence = [](int64_t) { return Answer{{11, 12, 13, 14, 1, 2, 3, 4, 5}, 4, 1, 1}; };
  const Answers training(sequence, experiment_.train.batch_size, S, 2, false, {}, {1, 3});
  TinyTraining tiny(experiment_, test::baseline(), rank.channels, {.training = &training, .validation_sequences = 6});
  for (int i = 0; i < 80; ++i) tiny->step();
  const auto learned = tiny->validate();
  for (const std::string name : {"accuracy_head_1", "accuracy_head_2", "accept_head_2"})
    EXPECT_EQ(learned.at("valid/" + name), 1) << name;
  EXPECT_EQ(learned.at("valid/tokens_per_pass"), 2.5) << "as of three heads at offsets 1, 2 and 3";
}

TEST_F(ValidationTest, ReportsTheSameOnThreeRanksWithAnUnevenNumberOfSequences) {
  experiment_.model.future_tokens = 3;
  experiment_.model.layers = 4;
  SingleRank rank;
  const auto alone = after_training(rank.channels, false, 0);
  test::on_ranks(3, [&](Channels& channels) {
    const auto together = after_training(channels, false, 0);
    ASSERT_EQ(together.size(), alone.size());
    for (const auto& [name, value] : alone) EXPECT_NEAR(together.at(name), value, 1e-5) << name;
  });
}

TEST_F(ValidationTest, ClassifiesTokensByTheirChangeSinceTheFirstValidation) {
  SingleRank rank;
  const Answers source(learnable, experiment_.train.batch_size, S, heads);
  TinyTraining tiny(experiment_, test::baseline(), rank.channels, {.training = &source, .validation_sequences = 6});
  EXPECT_EQ(tiny->validate().count("valid/tokens_hl"), 0U) << "nothing to compare with";
  const auto same = tiny->validate();
  EXPECT_EQ(same.at("valid/tokens_lh") + same.at("valid/tokens_hl"), 0);
  EXPECT_NEAR(same.at("valid/tokens_hh") + same.at("valid/tokens_ll"), 1, 1e-12);
  for (int i = 0; i < 60; ++i) tiny->step();
  EXPECT_EQ(tiny->validate().at("valid/tokens_hl"), 1) << "all of the answer is learned";
  auto& first = tiny->state().pipeline_state.at("validation/first_losses");
  first = first.narrow(0, 0, 2).sub(10).contiguous();  // as saved by a different number of ranks
  EXPECT_EQ(tiny->validate().at("valid/tokens_lh"), 1);
}

TEST_F(ValidationTest, MeansOverHeadsLeaveOutThoseWithoutATarget) {
  experiment_.model.future_tokens = 3;
  experiment_.model.layers = 4;
  SingleRank rank;
  const Answers source([](int64_t) { return Answer{{7, 8}, 0}; }, 2, S, 3);
  TinyTraining tiny(experiment_, test::baseline(), rank.channels, {.training = &source});
  const auto validation = tiny->validate();
  EXPECT_NEAR(validation.at("valid/loss"), std::log(40.0), 0.1);
  EXPECT_EQ(validation.at("valid/loss"), validation.at("valid/ce_head_1"));
  EXPECT_EQ(validation.count("valid/ce_head_2"), 0U);
  const StepReport report = tiny->step();
  EXPECT_NEAR(report.loss, validation.at("valid/loss"), 1e-5);
  EXPECT_EQ(report.metrics.at("train/ce"), report.metrics.at("train/ce_head_1"));
  EXPECT_NEAR(report.metrics.at("train/ce"), report.loss, 1e-5);
  EXPECT_EQ(report.metrics.count("train/ce_head_3"), 0U);
}

TEST_F(ValidationTest, WithoutAnyTargetHasNoLoss) {
  experiment_.model.future_tokens = 2;
  experiment_.model.layers = 3;
  SingleRank rank;
  const Answers source([](int64_t) { return Answer{{7}, 0}; }, 2, S, 2);
  TinyTraining tiny(experiment_, test::baseline(), rank.channels, {.training = &source});
  EXPECT_TRUE(std::isnan(tiny->validate().at("valid/loss"))) << "0 would be the lowest of all";
  const auto again = tiny->validate();  // compares with the first one
  EXPECT_EQ(again.count("valid/tokens_hh"), 0U) << "a share of no tokens";
}

/// Counts its calls in its state, in place.
class Counting : public Objective {
 public:
  Needs needs() const override { return {.values = {ValueSignal::of_policy("v")}, .heads = {{"v", "linear"}}}; }
  Tensor loss(ValueStep& step) override {
    Tensor& calls = step.state("calls", at::zeros({}));
    calls.add_(1);
    step.metric("value/calls", calls, at::ones({}));
    const Tensor values = step.leaf(ValueSignal::of_policy("v")), answers = step.batch().kind.eq(2);
    return ((values - 2).square() * answers).sum() / step.answer_tokens();
  }
};

TEST_F(ValidationTest, OfAnObjectiveReportsItsLossAndMetricsAndKeepsItsState) {
  SingleRank rank;
  const Answers source(learnable, experiment_.train.batch_size, S, 0);
  TinyTraining tiny(experiment_, std::make_unique<Counting>(), rank.channels, {.training = &source});
  const StepReport step = tiny->step();
  EXPECT_NEAR(step.loss, 4, 1e-6);
  const auto once = tiny->validate(), twice = tiny->validate();
  EXPECT_EQ(once, twice);
  EXPECT_LT(once.at("valid/loss"), 4);
  EXPECT_EQ(once.at("valid/value/calls"), 2.5) << "two micro-batches: the second and the third call";
  EXPECT_EQ(once.count("valid/exact_match"), 0U);
  EXPECT_EQ(tiny->state().pipeline_state.at("calls").item<float>(), 1);
}

/// Reports the number of the step that it is called for.
class Numbered : public Objective {
 public:
  Needs needs() const override { return {.values = {ValueSignal::of_policy("v")}, .heads = {{"v", "linear"}}}; }
  Tensor loss(ValueStep& step) override {
    step.metric("value/number", at::scalar_tensor(double(step.number())), at::ones({}));
    return step.leaf(ValueSignal::of_policy("v")).square().sum() / step.answer_tokens();
  }
};

TEST_F(ValidationTest, JudgesAnObjectiveByItsScheduleAtTheLastCompleteStep) {
  SingleRank rank;
  const Answers source(learnable, experiment_.train.batch_size, S, 0);
  TinyTraining tiny(experiment_, std::make_unique<Numbered>(), rank.channels, {.training = &source});
  EXPECT_EQ(tiny->validate().at("valid/value/number"), 0) << "before the first step";
  for (int number = 1; number <= 2; ++number) {
    EXPECT_EQ(tiny->step().metrics.at("value/number"), number);
    EXPECT_EQ(tiny->validate().at("valid/value/number"), number);
  }
}

}  // namespace
}  // namespace wmtp
