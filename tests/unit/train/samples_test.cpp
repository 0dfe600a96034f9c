// Samples of single tokens: the losses of validation and the weights that a step would give, for every token of the
// first sequences; taking them changes nothing.
#include "train/samples.hpp"

#include <gtest/gtest.h>

#include "support/answers.hpp"
#include "support/ranks.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

using test::Answer;
using test::Answers;
using test::AnyStep;
using test::TinyTraining;

constexpr int64_t S = 12;

class SamplesTest : public testing::Test {
 protected:
  SamplesTest() { experiment_.log.samples = 2; }

  Experiment experiment_ = test::tiny_experiment();
  SingleRank rank_;
};

TEST_F(SamplesTest, HaveARowPerTokenAndHeadWithALossForTargets) {
  TinyTraining tiny(experiment_, test::baseline(), rank_.channels);
  const auto rows = tiny->sample();
  ASSERT_EQ(rows.size(), size_t(2 * S * 3));
  for (size_t i = 0; i < rows.size(); ++i) {
    const TokenSample& row = rows[i];
    EXPECT_EQ(row.sequence, int64_t(i) / (S * 3));
    EXPECT_EQ(row.position, int64_t(i) / 3 % S);
    EXPECT_EQ(row.head, int64_t(i) % 3 + 1);
    EXPECT_EQ(row.loss.has_value(), row.position >= row.head) << row.position << " by head " << row.head;
    EXPECT_EQ(row.weight.has_value(), row.loss.has_value());
    EXPECT_FALSE(row.reference_loss);
    if (row.weight) {
      EXPECT_EQ(*row.weight, 1);
    }
  }
}

TEST_F(SamplesTest, HaveTheLossesOfValidation) {
  for (const std::vector<int64_t>& offsets : {std::vector<int64_t>(), {1, 3, 7}}) {
    experiment_.model.future_offsets = offsets;
    TinyTraining tiny(experiment_, test::baseline(), rank_.channels, {.validation_sequences = 2});
    tiny->step();
    const auto metrics = tiny->validate();
    for (int64_t head = 1; head <= 3; ++head) {
      double sum = 0, count = 0;
      for (const TokenSample& row : tiny->sample())
        if (row.head == head && row.loss) sum += *row.loss, ++count;
      EXPECT_NEAR(sum / count, metrics.at("valid/ce_head_" + std::to_string(head)), 1e-6);
      EXPECT_EQ(count, 2 * double(S - future_offset(offsets, head)));
    }
  }
}

/// keeps_excess: the 60% of a head's tokens with the largest excess over the reference have weight 1.
TEST_F(SamplesTest, HaveTheWeightsThatAStepWouldGive) {
  TinyTraining tiny(experiment_, test::keeps_excess(), rank_.channels);
  const auto rows = tiny->sample();
  std::vector<double> kept, left;
  for (const TokenSample& row : rows) {
    if (row.head != 1 || !row.loss) continue;
    ASSERT_TRUE(row.reference_loss);
    (*row.weight == 1 ? kept : left).push_back(*row.loss - *row.reference_loss);
  }
  ASSERT_EQ(kept.size() + left.size(), size_t(2 * (S - 1)));
  ASSERT_EQ(kept.size(), 13U) << "60% of 22 tokens, including the one at the threshold";
  EXPECT_GT(*std::min_element(kept.begin(), kept.end()), *std::max_element(left.begin(), left.end()));
}

TEST_F(SamplesTest, HaveTheLossOfTheReferencesOwnHeadAtEveryRowWithATarget) {
  const auto rows_with = [&](ReferenceHeads heads) {
    experiment_.reference.heads = heads;
    return TinyTraining(experiment_, test::keeps_excess(), rank_.channels)->sample();
  };
  const auto own = rows_with(ReferenceHeads::own), next = rows_with(ReferenceHeads::next);
  ASSERT_EQ(own.size(), next.size());
  int differ = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    ASSERT_EQ(own[i].reference_loss.has_value(), own[i].loss.has_value());
    if (!own[i].loss) continue;
    EXPECT_GT(*own[i].reference_loss, 0) << "position " << own[i].position << ", head " << own[i].head;
    if (own[i].head == 1) {
      EXPECT_EQ(own[i].reference_loss, next[i].reference_loss);
    } else {
      differ += own[i].reference_loss != next[i].reference_loss;
    }
  }
  EXPECT_EQ(differ, 2 * (S - 2 + S - 3));
}

TEST_F(SamplesTest, AreWeighedForEveryWhen) {
  for (const When when : {When::token, When::all}) {
    TinyTraining tiny(experiment_,
                      std::make_unique<test::Weigh>(
                          Needs{.when = when, .reads = {Signal::policy_loss}},
                          [](AnyStep step) { return Weights::by_source(step.get(Signal::policy_loss) * 2); }),
                      rank_.channels);
    int64_t weighed = 0;
    for (const TokenSample& row : tiny->sample())
      if (row.loss) {
        EXPECT_NEAR(*row.weight, 2 * *row.loss, 1e-5);
        ++weighed;
      }
    EXPECT_EQ(weighed, 2 * (11 + 10 + 9));
  }
}

TEST_F(SamplesTest, AreWeighedAsInTheLastCompleteStep) {
  const auto by_number = [](AnyStep step) {
    return Weights::by_source(at::full(step.valid().sizes(), double(step.number()), at::kFloat));
  };
  TinyTraining tiny(experiment_, std::make_unique<test::Weigh>(Needs{.when = When::before}, by_number), rank_.channels);
  for (int number = 0; number <= 2; ++number) {
    int weighed = 0;
    for (const TokenSample& row : tiny->sample())
      if (row.weight) {
        EXPECT_EQ(*row.weight, number);
        ++weighed;
      }
    EXPECT_EQ(weighed, 2 * (11 + 10 + 9));
    tiny->step();
  }
}

TEST_F(SamplesTest, OfRecordsIncludePromptsButNotPadding) {
  const Answers source([](int64_t) { return Answer{{5, 6, 7, 8, 9}, 2}; }, experiment_.train.batch_size, S, 3);
  TinyTraining tiny(experiment_, test::baseline(), rank_.channels, {.training = &source});
  const auto rows = tiny->sample();
  ASSERT_EQ(rows.size(), size_t(2 * 5 * 3));
  for (const TokenSample& row : rows) {
    EXPECT_EQ(row.token, 5 + row.position);
    EXPECT_EQ(row.loss.has_value(), row.position >= 2 && row.position >= row.head) << row.position << " " << row.head;
  }
}

TEST_F(SamplesTest, AlignWithHead1WhereThereIsATargetIfTheRunComparesHeads) {
  for (const FutureHeads kind : {FutureHeads::parallel, FutureHeads::chained, FutureHeads::shared}) {
    experiment_.model.future_heads = kind;
    experiment_.log.head_gradients_every = 0;
    for (const TokenSample& row : TinyTraining(experiment_, test::baseline(), rank_.channels)->sample())
      EXPECT_FALSE(row.cosine || row.product);
    experiment_.log.head_gradients_every = 10;
    TinyTraining tiny(experiment_, test::baseline(), rank_.channels),
        plain(experiment_, test::baseline(), rank_.channels);
    int64_t opposed = 0;
    for (const TokenSample& row : tiny->sample()) {
      ASSERT_EQ(row.cosine.has_value(), row.loss.has_value());
      ASSERT_EQ(row.product.has_value(), row.loss.has_value());
      if (!row.loss) continue;
      EXPECT_EQ(*row.cosine < 0, *row.product < 0);
      EXPECT_LE(std::abs(*row.cosine), 1);
      EXPECT_TRUE(row.head > 1 || *row.cosine == 1);
      opposed += *row.cosine < 0;
    }
    EXPECT_GT(opposed, 0);
    const StepReport one = plain->step(), other = tiny->step();
    EXPECT_EQ(one.metrics.at("train/grad_norm"), other.metrics.at("train/grad_norm")) << "it added to gradients";
  }
}

TEST_F(SamplesTest, ChangeNeitherThePipelineStateNorTheTraining) {
  const auto counting = [] {
    return std::make_unique<test::Weigh>(Needs{.when = When::before}, [](AnyStep step) {
      Tensor& calls = step.state("calls", at::zeros({}));
      calls.add_(1);
      step.metric("calls", calls, at::ones({}));
      return Weights::by_source(at::ones_like(step.valid(), at::kFloat) / calls);
    });
  };
  experiment_.log.head_gradients_every = 100;
  TinyTraining plain(experiment_, counting(), rank_.channels), sampled(experiment_, counting(), rank_.channels);
  for (int i = 0; i < 3; ++i) {
    sampled->sample();
    const StepReport one = plain->step(), other = sampled->step();
    EXPECT_EQ(one.loss, other.loss);
    EXPECT_EQ(one.metrics.at("calls"), other.metrics.at("calls"));
  }
}

TEST_F(SamplesTest, AreTheSameOnTwoRanksAndReturnedOnRankZero) {
  experiment_.train.batch_size = 4;
  TinyTraining alone(experiment_, test::keeps_excess(), rank_.channels, {.validation_sequences = 8});
  const auto wanted = alone->sample();
  experiment_.train.batch_size = 2;
  test::on_ranks(2, [&](Channels& channels) {
    TinyTraining tiny(experiment_, test::keeps_excess(), channels, {.validation_sequences = 8});
    const auto rows = tiny->sample();
    ASSERT_EQ(rows.size(), channels.rank() == 0 ? wanted.size() : 0U);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i].token, wanted[i].token);
      EXPECT_EQ(rows[i].weight, wanted[i].weight) << i;
      if (rows[i].loss) {
        EXPECT_NEAR(*rows[i].loss, *wanted[i].loss, 1e-5);
      }
    }
  });
}

TEST_F(SamplesTest, AreNotTakenWhenNotConfigured) {
  experiment_.log.samples = 0;
  TinyTraining tiny(experiment_, test::baseline(), rank_.channels);
  EXPECT_TRUE(tiny->sample().empty());
}

}  // namespace
}  // namespace wmtp
