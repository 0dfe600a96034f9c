// The small run of a plugin's trials: which batches the plugin sees, and that a run repeats and resumes to the bit.
#include "plugins/torch/check/small_training.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "support/data_fixture.hpp"
#include "support/tensors.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

using test::AnyStep;
using test::numbers_of;
using test::Weigh;

/// A training with a weighting from a function, which is called for whole batches.
SmallParts parts_of(std::function<Weights(AnyStep)> weigh, Needs needs = {.when = When::all}) {
  SmallParts parts;
  parts.weighting = [weigh = std::move(weigh), needs] { return std::make_unique<Weigh>(needs, weigh); };
  return parts;
}

Weights uniform(AnyStep) { return Weights::uniform(); }

/// The batch of the first step.
Batch first_batch(SmallParts parts) {
  Batch batch;
  parts.weighting = [&batch] {
    return std::make_unique<Weigh>(Needs{.when = When::before}, [&batch](AnyStep step) {
      batch = step.batch();
      return Weights::uniform();
    });
  };
  SmallTraining(std::move(parts)).losses(1);
  return batch;
}

TEST(SmallTraining, LearnsFromRandomTokensWhatCanBeLearned) {
  const std::vector<double> losses = SmallTraining(parts_of(uniform)).losses(8);
  EXPECT_NEAR(losses.front(), std::log(64), 0.1) << "each head knows nothing of 64 tokens";
  for (const double loss : losses) EXPECT_TRUE(std::isfinite(loss)) << loss;
}

TEST(SmallTraining, GivesTheSameBitsAgain) {
  EXPECT_EQ(SmallTraining(parts_of(uniform)).losses(4), SmallTraining(parts_of(uniform)).losses(4));
}

TEST(SmallTraining, HasPromptsAnswersAndPaddingInEveryBatchOfSevenRows) {
  SmallParts parts = parts_of(uniform);
  parts.batch_size = 14;
  const Batch batch = first_batch(parts);
  ASSERT_EQ(batch.kind.sizes(), (at::IntArrayRef{14, 24}));
  for (int64_t row = 0; row < 14; ++row) {
    const std::vector<int64_t> kinds = numbers_of(batch.kind[row]);
    const bool padding = row % 7 == 6;
    EXPECT_EQ(kinds.front(), padding ? 0 : prompt_kind) << "row " << row;
    EXPECT_EQ(std::count(kinds.begin(), kinds.end(), answer_kind) == 0, padding) << "row " << row;
    EXPECT_TRUE(padding || std::is_sorted(kinds.begin(), std::find(kinds.begin(), kinds.end(), 0))) << "row " << row;
    EXPECT_EQ(batch.sequence[row].item<int64_t>(), padding ? -1 : row);
  }
  EXPECT_TRUE(batch.tokens.lt(64).logical_and(batch.tokens.ge(0)).all().item<bool>());
}

TEST(SmallTraining, HasRowsThatDependOnTheirPositionOnly) {
  SmallParts few = parts_of(uniform), many = parts_of(uniform);
  many.batch_size = 2 * few.batch_size;
  const Batch first = first_batch(few), all = first_batch(many);
  EXPECT_TRUE(at::equal(all.tokens.narrow(0, 0, few.batch_size), first.tokens));
  EXPECT_TRUE(at::equal(all.kind.narrow(0, 0, few.batch_size), first.kind));
}

TEST(SmallTraining, HasNoTargetOnRequest) {
  int valid = 0, calls = 0;
  SmallParts parts = parts_of([&](AnyStep step) {
    valid += step.valid().sum().item<int>();
    ++calls;
    return Weights::uniform();
  });
  parts.targets = false;
  EXPECT_EQ(SmallTraining(parts).losses(2), (std::vector<double>{0, 0}));
  EXPECT_EQ(valid, 0);
  EXPECT_GT(calls, 0);
  EXPECT_FALSE(first_batch(parts).kind.eq(answer_kind).any().item<bool>());
}

TEST(SmallTraining, HasAModelForEachNameThatIsRead) {
  Needs needs{.when = When::head, .reads = {Signal::reference_loss}};
  for (const char* name : {"amateur", "expert"}) needs.references.push_back({name, Signal::reference_loss});
  int calls = 0;
  SmallTraining(parts_of(
                    [&](AnyStep step) {
                      ++calls;
                      const Tensor reference = step.get(Signal::reference_loss),
                                   amateur = step.get({"amateur", Signal::reference_loss}),
                                   expert = step.get({"expert", Signal::reference_loss});
                      for (const Tensor& losses : {reference, amateur, expert})
                        EXPECT_GT(losses.masked_select(step.valid()).min().item<double>(), 1);
                      EXPECT_FALSE(at::allclose(amateur, expert) || at::allclose(reference, amateur));
                      return Weights::uniform();
                    },
                    needs))
      .losses(1);
  EXPECT_GT(calls, 0);
}

TEST(SmallTraining, HasLossesOfZeroAndOfThousandsOnRequest) {
  double smallest = INFINITY, largest = 0;
  SmallParts parts = parts_of(
      [&](AnyStep step) {
        const at::Tensor losses = step.get(Signal::policy_loss).masked_select(step.valid());
        smallest = std::min(smallest, losses.min().item<double>());
        largest = std::max(largest, losses.max().item<double>());
        return Weights::uniform();
      },
      {.when = When::head, .reads = {Signal::policy_loss}});
  SmallTraining(parts).losses(1);
  EXPECT_TRUE(smallest > 3 && largest < 6) << smallest << " to " << largest;
  parts.sharpness = 1e5;
  SmallTraining(parts).losses(1);
  EXPECT_TRUE(smallest == 0 && largest > 1000) << smallest << " to " << largest;
}

/// The mean of the differences of a right and a wrong answer's values.
class OfPairs final : public Objective {
 public:
  explicit OfPairs(Batch& seen) : seen_(seen) {}
  Needs needs() const override {
    return {.values = {ValueSignal::of_policy("rank")}, .heads = {{"rank"}}, .pairs = true};
  }
  Tensor loss(ValueStep& step) override {
    seen_ = step.batch();
    EXPECT_EQ(step.pairs().item<int64_t>(), step.batch().tokens.size(0) / 2);
    return (step.leaf(ValueSignal::of_policy("rank")) * step.valid()).sum() / step.pairs();
  }

 private:
  Batch& seen_;
};

TEST(SmallTraining, GivesAnObjectivePairsOfARightAndAWrongAnswerToOnePrompt) {
  Batch batch;
  SmallParts parts;
  parts.objective = [&] { return std::make_unique<OfPairs>(batch); };
  parts.batch_size = 8;
  SmallTraining(parts).losses(1);
  EXPECT_EQ(numbers_of(batch.correct), (std::vector<int64_t>{1, 0, 1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(numbers_of(batch.partner), (std::vector<int64_t>{1, 0, 3, 2, 5, 4, 7, 6}));
  for (int64_t row = 0; row < 8; row += 2) {
    const auto prompt = batch.kind[row].eq(prompt_kind);
    EXPECT_TRUE(at::equal(batch.kind[row + 1].eq(prompt_kind), prompt));
    EXPECT_TRUE(at::equal(batch.tokens[row + 1].masked_select(prompt), batch.tokens[row].masked_select(prompt)));
    EXPECT_FALSE(at::equal(batch.tokens[row + 1], batch.tokens[row]));
  }
}

TEST(SmallTraining, KeepsItsStateWhenThePluginIsReplaced) {
  std::vector<double> counts;
  int instances = 0;
  SmallParts parts;
  parts.weighting = [&] {
    ++instances;
    return std::make_unique<Weigh>(Needs{.when = When::all}, [&](AnyStep step) {
      counts.push_back(step.state("calls", at::zeros({})).add_(1).item<double>());
      return Weights::uniform();
    });
  };
  SmallTraining training(parts);
  training.losses(2);
  training.replace_plugin();
  training.losses(1);
  EXPECT_EQ(instances, 2);
  EXPECT_EQ(counts, (std::vector<double>{1, 2, 3}));
}

struct NotFiniteInTheThirdStep final : Objective {
  Needs needs() const override { return {.values = {ValueSignal::of_policy("v")}, .heads = {{"v"}}}; }
  Tensor loss(ValueStep& step) override {
    return step.leaf(ValueSignal::of_policy("v")).square().sum() * (step.number() == 3 ? NAN : 1);
  }
};

TEST(SmallTraining, NamesTheStepThatWasSkipped) {
  SmallParts parts;
  parts.objective = [] { return std::make_unique<NotFiniteInTheThirdStep>(); };
  EXPECT_EQ(SmallTraining(parts).losses(2).size(), 2u);
  const std::string text = error_of(ExitStatus::plugin, [&] { SmallTraining(parts).losses(4); });
  EXPECT_TRUE(text.starts_with("step 3: ")) << text;
}

}  // namespace
}  // namespace wmtp
