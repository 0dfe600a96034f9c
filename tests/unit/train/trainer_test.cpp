#include "train/trainer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "support/answers.hpp"
#include "support/ranks.hpp"
#include "support/refusal.hpp"
#include "support/test_folder.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

using test::AnyStep;
using test::baseline;
using test::keeps_excess;
using test::tiny_experiment;
using test::TinyTraining;
using test::Weigh;

std::vector<double> losses_of(const Experiment& experiment, std::unique_ptr<Weighting> weighting, int steps = 4) {
  SingleRank rank;
  TinyTraining training(experiment, std::move(weighting), rank.channels);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(training->step().loss);
  return losses;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << what << ", step " << i + 1;
}

/// Focal weights, computed at one When or another.
std::unique_ptr<Weighting> focal(When when) {
  return std::make_unique<Weigh>(Needs{.when = when, .reads = {Signal::policy_loss}}, [](AnyStep step) {
    return Weights::by_source((1 - step.get(Signal::policy_loss).neg().exp()).square());
  });
}

TEST(Trainer, StartsNearTheUniformLossAndLearnsARepeatedBatch) {
  Experiment experiment = tiny_experiment();
  SingleRank rank;
  TinyTraining training(experiment, baseline(), rank.channels);
  const StepReport first = training->step();
  EXPECT_NEAR(first.loss, std::log(40.0), 0.1);
  EXPECT_NEAR(first.metrics.at("train/ce"), first.loss, 1e-5);
  EXPECT_EQ(first.step, 1);
  EXPECT_EQ(first.sequences, (std::vector<int64_t>{0, 1}));
  for (int i = 0; i < 12; ++i) {
    training->state().step = training->state().drawn = 0;  // the first batch again
    training->step();
  }
  training->state().step = training->state().drawn = 0;
  EXPECT_LT(training->step().loss, first.loss - 1.0);
}

TEST(Trainer, AWeightingGivesTheSameLossesAtEveryWhen) {
  Experiment experiment = tiny_experiment();
  for (const FutureHeads heads : {FutureHeads::parallel, FutureHeads::chained, FutureHeads::shared}) {
    experiment.model.future_heads = heads;
    const auto within_the_loss = losses_of(experiment, focal(When::token));
    expect_near(losses_of(experiment, focal(When::head)), within_the_loss, "a head at a time");
    expect_near(losses_of(experiment, focal(When::all)), within_the_loss, "all heads at once");
  }
}

TEST(Trainer, WeightsByTargetAndBySourceMeanTheSameTokens) {
  const Experiment experiment = tiny_experiment();
  const auto even = [](const Tensor& tokens) { return tokens.remainder(2).eq(0).to(at::kFloat); };
  const auto by_target = losses_of(experiment, std::make_unique<Weigh>(Needs{}, [&](AnyStep step) {
                                     return Weights::by_target(even(step.batch().tokens));
                                   }));
  const auto by_source = losses_of(experiment, std::make_unique<Weigh>(Needs{}, [&](AnyStep step) {
                                     const Tensor of_token = even(step.batch().tokens);
                                     Tensor weights = at::zeros(step.valid().sizes());
                                     const int64_t S = of_token.size(1);
                                     for (int64_t k = 1; k <= step.heads(); ++k)
                                       weights.select(2, k - 1).narrow(1, 0, S - k).copy_(of_token.narrow(1, k, S - k));
                                     return Weights::by_source(weights);
                                   }));
  expect_near(by_target, by_source, "by target");
}

TEST(Trainer, ActivationCheckpointingChangesNoNumber) {
  Experiment experiment = tiny_experiment();
  experiment.model.layers = experiment.model.future_tokens + 3;
  const auto kept = losses_of(experiment, keeps_excess());
  for (const double share : {0.34, 1.0}) {  // one of three trunk blocks, and all of them
    experiment.parallel.activation_checkpointing = share;
    expect_near(losses_of(experiment, keeps_excess()), kept, "run again in backward");
  }
}

TEST(Trainer, ActivationOffloadChangesNoBit) {
  Experiment experiment = tiny_experiment();
  experiment.model.layers = experiment.model.future_tokens + 3;
  experiment.train.gradient_accumulation = 2;
  for (const double share : {0.34, 1.0}) {
    experiment.parallel.activation_checkpointing = share;
    experiment.parallel.activation_offload = false;
    const auto in_memory = losses_of(experiment, baseline());
    experiment.parallel.activation_offload = true;
    EXPECT_EQ(losses_of(experiment, baseline()), in_memory) << share;
  }
}

/// Trains a matrix beside each output of attention, as LoRA does.
class BesideAttention : public LinearAdapter {
 public:
  bool trains(const std::string&) const override { return false; }
  std::vector<Param> declare(const Linear& layer) const override {
    if (layer.name.find(".attention.wo") == std::string::npos) return {};
    return {{"a", {2, layer.in}, Param::Init::uniform, 0.1}, {"b", {layer.out, 2}}};
  }
  Tensor forward(const Linear&, const Tensor& x, LinearCall& call) const override {
    return call.base(x) + call.linear(call.linear(x, "a"), "b");
  }
  Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>& params) const override {
    return weight + params[1].mm(params[0]);
  }
};

struct LayoutOfState {
  const Adapter& adapter;
  int ranks;
  Strategy strategy;
  Precision precision;
  OptimizerKind optimizer = OptimizerKind::adamw;
  int tensor = 1, pipeline = 1;
};

TEST(Trainer, AnOptimizersStateInAFileChangesNoBit) {
  const test::TestFolder folder;
  Experiment experiment = tiny_experiment();
  experiment.train.ema = 0.9;
  experiment.train.gradient_accumulation = 2;
  experiment.train.clip_norm = 0.1;
  experiment.optimizer.weight_decay = 0.1;
  experiment.parallel.offload_path = folder.path().string();
  const test::Everything everything;
  const BesideAttention low_rank;
  constexpr Precision fp32 = Precision::fp32, bf16 = Precision::bf16, fp16 = Precision::fp16;
  for (const LayoutOfState& layout : {LayoutOfState{everything, 2, Strategy::full_shard, fp32},
                                      {everything, 2, Strategy::no_shard, bf16},
                                      {everything, 2, Strategy::full_shard, bf16},
                                      {everything, 2, Strategy::shard_grad_op, fp16},
                                      {everything, 4, Strategy::hybrid_shard, bf16, OptimizerKind::sgd},
                                      {everything, 2, Strategy::full_shard, bf16, OptimizerKind::adamw, 2},
                                      {everything, 4, Strategy::full_shard, bf16, OptimizerKind::adamw, 1, 2},
                                      {low_rank, 2, Strategy::full_shard, fp32},
                                      {low_rank, 2, Strategy::shard_grad_op, bf16}})
    test::on_ranks(layout.ranks, [&](Channels& all) {
      all.form_sections(layout.pipeline);
      Channels& channels = all.section_channels();
      channels.share_sequences(/*sequence_ranks=*/1, layout.tensor);
      Experiment in_memory = experiment;
      in_memory.parallel.strategy = layout.strategy;
      in_memory.parallel.shard_group_size = layout.strategy == Strategy::hybrid_shard ? 2 : 0;
      in_memory.parallel.precision = layout.precision;
      in_memory.parallel.processes = layout.ranks;
      in_memory.parallel.tensor = layout.tensor;
      in_memory.parallel.pipeline = layout.pipeline;
      in_memory.optimizer.kind = layout.optimizer;
      in_memory.optimizer.momentum = layout.optimizer == OptimizerKind::sgd ? 0.9 : 0;
      Experiment in_file = in_memory;
      in_file.parallel.optimizer_offload = OptimizerOffload::nvme;
      TinyTraining one(in_memory, baseline(), channels, {.adapter = &layout.adapter}),
          other(in_file, baseline(), channels, {.adapter = &layout.adapter});
      for (TinyTraining* training : {&one, &other})
        if (auto& scale = (*training)->state().loss_scale) scale->restore({1 << 24, 0, 0});  // overflows at first
      std::set<bool> overflowed;
      for (int i = 0; i < 8; ++i) {
        const StepReport wanted = one->step(), found = other->step();
        EXPECT_EQ(found.loss, wanted.loss) << "step " << i;
        EXPECT_EQ(found.skipped, wanted.skipped) << "step " << i;
        overflowed.insert(found.overflowed);
      }
      EXPECT_EQ(overflowed, layout.precision == fp16 ? std::set<bool>({false, true}) : std::set<bool>{false});
      for (int with_averages = 0; with_averages < 2; ++with_averages) {
        EXPECT_EQ(other->validate(), one->validate());
        for (size_t i = 0; i < one.model().trained_groups().size(); ++i)
          EXPECT_TRUE(at::equal(other.model().trained_groups()[i]->gather_master(),
                                one.model().trained_groups()[i]->gather_master()));
        one->optimizer().swap_with_ema();
        other->optimizer().swap_with_ema();
      }
    });
}

TEST(Trainer, AccumulationChangesNoNumberWhereWeightsNeedNoStatistics) {
  Experiment experiment = tiny_experiment();
  experiment.train.batch_size = 4;
  const auto at_once = losses_of(experiment, baseline());
  experiment.train.batch_size = 2;
  experiment.train.gradient_accumulation = 2;
  expect_near(losses_of(experiment, baseline()), at_once, "two micro-batches");
}

TEST(Trainer, NormalizingByWeightsDividesByTheirSum) {
  Experiment experiment = tiny_experiment();
  const auto constant = [](float weight) {
    return std::make_unique<Weigh>(
        Needs{}, [weight](AnyStep step) { return Weights::by_source(at::full(step.valid().sizes(), weight)); });
  };
  const double plain = losses_of(experiment, baseline(), 1)[0];
  EXPECT_NEAR(losses_of(experiment, constant(0.25F), 1)[0], 0.25 * plain, 1e-5);
  experiment.train.normalize = LossDivisor::weights;
  EXPECT_NEAR(losses_of(experiment, constant(0.25F), 1)[0], plain, 1e-5);
  EXPECT_EQ(losses_of(experiment, constant(0.0F), 1)[0], 0.0) << "a head with a zero denominator adds 0";
}

TEST(Trainer, AStepWithoutATargetReportsNoLossAndNoWeights) {
  SingleRank rank;
  const Experiment experiment = tiny_experiment();
  const auto prompt_then_answers = [](int64_t position) {
    return test::Answer{{3, 1, 4, 1, 5, 9, 2}, position < 2 ? 7 : 3};
  };
  const test::Answers records(prompt_then_answers, experiment.train.batch_size, 12, experiment.model.future_tokens);
  TinyTraining training(experiment, baseline(), rank.channels, {.training = &records});
  const StepReport without = training->step();
  for (const char* name :
       {"train/loss", "train/ce", "train/clip_coef", "train/clip_ratio", "weights/mean", "weights/std", "weights/ess"})
    EXPECT_EQ(without.metrics.count(name), 0U) << name;
  EXPECT_EQ(without.metrics.at("train/grad_norm"), 0);
  EXPECT_EQ(without.skipped, "");
  EXPECT_TRUE(training->state().guard.window().empty());
  const StepReport with = training->step();
  EXPECT_EQ(with.metrics.at("train/loss"), with.loss);
  EXPECT_EQ(with.metrics.at("weights/mean"), 1);
  EXPECT_EQ(with.metrics.at("train/clip_coef"),
            std::min(1.0, experiment.train.clip_norm / (with.metrics.at("train/grad_norm") + 1e-6)));
  EXPECT_EQ(training->state().guard.window(), std::deque<double>{with.loss});
}

TEST(Trainer, TheDeviationOfNearlyEqualWeightsIsExact) {
  constexpr double more = 0x1p-13;  // its square is below the last bit of a float above 1
  SingleRank rank;
  TinyTraining training(
      tiny_experiment(),
      std::make_unique<Weigh>(
          Needs{},
          [](AnyStep step) { return Weights::by_target(1 + more * step.batch().tokens.remainder(2).to(at::kFloat)); }),
      rank.channels);
  const StepReport report = training->step();
  const double share = (report.metrics.at("weights/mean") - 1) / more;  // of odd tokens
  EXPECT_GT(share, 0.2);
  EXPECT_NEAR(report.metrics.at("weights/std"), more * std::sqrt(share * (1 - share)), 1e-5 * more);
}

TEST(Trainer, ReportsThePipelinesMetrics) {
  SingleRank rank;
  TinyTraining training(tiny_experiment(), keeps_excess(), rank.channels);
  const StepReport report = training->step();
  EXPECT_NEAR(report.metrics.at("kept"), 0.6, 0.03);
  EXPECT_NEAR(report.metrics.at("weights/mean"), 0.6, 0.03);
  EXPECT_LT(report.loss, report.metrics.at("train/ce"));
}

TEST(Trainer, ASkippedStepChangesNothingAndIsReported) {
  Experiment experiment = tiny_experiment();
  experiment.guard.grad_norm = 1e-9;
  SingleRank rank;
  TinyTraining training(experiment, baseline(), rank.channels);
  const auto parameters = [&] {
    std::vector<Tensor> all;
    for (ParameterGroup* group : training->model().trained_groups()) all.push_back(group->master().clone());
    return at::cat(all);
  };
  const Tensor before = parameters();
  const StepReport report = training->step();
  EXPECT_TRUE(report.skipped.starts_with("gradient norm")) << report.skipped;
  EXPECT_EQ(report.metrics.at("guard/skipped"), 1);
  EXPECT_TRUE(at::equal(parameters(), before));
  EXPECT_EQ(training->state().step, 1) << "the position in the data advances";
}

TEST(Trainer, FaultyWeightsEndTheRunWithThePipelinesName) {
  for (const float weight : {NAN, -1.0F}) {
    SingleRank rank;
    TinyTraining training(
        tiny_experiment(),
        std::make_unique<Weigh>(
            Needs{}, [weight](AnyStep step) { return Weights::by_source(at::full(step.valid().sizes(), weight)); }),
        rank.channels);
    EXPECT_SAYS(test::refusal(ExitStatus::plugin, [&] { training->step(); }), "made by the test") << weight;
  }
}

TEST(Trainer, ValidationIsUnweightedAndLeavesTheModelAlone) {
  SingleRank rank;
  TinyTraining training(tiny_experiment(), keeps_excess(), rank.channels);
  training->validate();  // later validations compare tokens with this one
  const auto once = training->validate(), twice = training->validate();
  EXPECT_EQ(once, twice);
  EXPECT_NEAR(once.at("valid/loss"), std::log(40.0), 0.1);
  double mean = 0;
  for (int k = 1; k <= 3; ++k) mean += once.at("valid/ce_head_" + std::to_string(k)) / 3;
  EXPECT_NEAR(once.at("valid/loss"), mean, 1e-9);
}

TEST(Trainer, ReportsTheMeanTimeThatRanksWaitedForEachOther) {
  constexpr std::chrono::milliseconds late{100};
  test::on_ranks(2, [&](Channels& channels) {
    TinyTraining training(
        tiny_experiment(),
        std::make_unique<Weigh>(Needs{},
                                [&](AnyStep) {
                                  if (channels.rank() == 1)
                                    std::this_thread::sleep_for(late);  // simulates a longer computation
                                  return Weights::uniform();
                                }),
        channels);
    const double waited = training->step().metrics.at("perf/communication_exposed");
    EXPECT_GT(waited, 0.4 * 0.1) << "rank 0 waits 0.1 s, rank 1 not at all";
    const Tensor all = channels.all_gather(at::scalar_tensor(waited, at::kDouble), "comparing what was reported");
    EXPECT_TRUE(all.eq(waited).all().item<bool>()) << all;
  });
  SingleRank rank;
  EXPECT_EQ(TinyTraining(tiny_experiment(), baseline(), rank.channels)->step().metrics.at("perf/communication_exposed"),
            0);
}

TEST(Trainer, SeveralRanksComputeWhatOneRankComputes) {
  Experiment experiment = tiny_experiment();
  experiment.train.batch_size = 4;
  for (const bool selects : {false, true}) {
    experiment.train.batch_size = 4;
    experiment.parallel.strategy = Strategy::full_shard;
    const auto alone = losses_of(experiment, selects ? keeps_excess() : baseline());
    experiment.parallel.shard_group_size = 2;
    for (const auto& [strategy, ranks] : {std::pair{Strategy::no_shard, 2}, std::pair{Strategy::shard_optimizer, 2},
                                          std::pair{Strategy::shard_grad_op, 2}, std::pair{Strategy::full_shard, 2},
                                          std::pair{Strategy::hybrid_shard, 2}, std::pair{Strategy::hybrid_shard, 4}}) {
      experiment.train.batch_size = 4 / ranks;
      experiment.parallel.strategy = strategy;
      const auto body = [&, strategy = strategy](Channels& channels) {
        TinyTraining training(experiment, selects ? keeps_excess() : baseline(), channels);
        std::vector<double> losses;
        for (int i = 0; i < 4; ++i) losses.push_back(training->step().loss);
        expect_near(losses, alone, to_string(strategy));
      };
      test::on_ranks(ranks, body, gloo("127.0.0.1"));  // as between hosts
    }
  }
}

/// Both sum a step's micro-batches on each rank and then the ranks' sums in rank order, and update each element alike.
/// Only the norm of the gradient is summed in another order, so the test does not clip.
TEST(Trainer, ShardOptimizerComputesExactlyWhatNoShardComputes) {
  Experiment experiment = tiny_experiment();
  experiment.train.gradient_accumulation = 2;
  experiment.train.clip_norm = 0;
  const auto masters_with = [&](Strategy strategy) {
    experiment.parallel.strategy = strategy;
    std::map<std::string, Tensor> masters;
    test::on_ranks(2, [&](Channels& channels) {
      TinyTraining training(experiment, baseline(), channels);
      for (int i = 0; i < 4; ++i) training->step();
      for (ParameterGroup* group : training->model().trained_groups()) {
        const Tensor master = group->gather_master();
        if (channels.rank() == 0) masters[group->name()] = master.clone();
      }
    });
    return masters;
  };
  const auto whole = masters_with(Strategy::no_shard), cut = masters_with(Strategy::shard_optimizer);
  ASSERT_EQ(cut.size(), whole.size());
  for (const auto& [name, master] : whole) EXPECT_TRUE(at::equal(cut.at(name), master)) << name;
}

/// bf16 has 8 bits, so the relative error of an element is at most 2^-8, without bias. Losses stay within a hundredth
/// of their decrease over four steps, equal for every strategy.
TEST(Trainer, GradientsReducedInBf16TrainAlike) {
  Experiment experiment = tiny_experiment();
  experiment.parallel.precision = Precision::bf16;
  experiment.parallel.shard_group_size = 2;
  const auto losses_with = [&](Precision reduce, Strategy strategy) {
    experiment.parallel.reduce = reduce;
    experiment.parallel.strategy = strategy;
    std::vector<double> losses;
    test::on_ranks(4, [&](Channels& channels) {
      TinyTraining training(experiment, baseline(), channels);
      std::vector<double> mine;
      for (int i = 0; i < 6; ++i) mine.push_back(training->step().loss);
      if (channels.rank() == 0) losses = mine;
    });
    return losses;
  };
  const auto exact = losses_with(Precision::fp32, Strategy::full_shard);
  for (const Strategy strategy : {Strategy::full_shard, Strategy::no_shard, Strategy::hybrid_shard}) {
    const auto rounded = losses_with(Precision::bf16, strategy);
    EXPECT_EQ(rounded[0], exact[0]) << "no gradient has been reduced yet";
    for (size_t i = 1; i < exact.size(); ++i) EXPECT_NEAR(rounded[i], exact[i], 2e-3 * exact[i]) << "step " << i + 1;
  }
}

TEST(Trainer, ARankWithoutAValidTokenOrWithoutAWeightTakesPart) {
  // Every second sequence is only a prompt, or has no weight.
  const auto weighting = [](std::optional<When> when) -> std::unique_ptr<Weighting> {
    if (!when) return baseline();
    return std::make_unique<Weigh>(Needs{.when = *when, .reads = {Signal::policy_loss}}, [](AnyStep step) {
      step.metric("valid", step.valid().sum(), at::ones({}));
      return Weights::by_source((1 - step.get(Signal::policy_loss).neg().exp()).square());
    });
  };
  const auto of_even_ones = []() -> std::unique_ptr<Weighting> {
    return std::make_unique<Weigh>(Needs{}, [](AnyStep step) {
      const Tensor even = step.batch().sequence.remainder(2).eq(0).to(at::kFloat);
      return Weights::by_target(even.unsqueeze(1).expand_as(step.batch().tokens).contiguous());
    });
  };
  Experiment experiment = tiny_experiment();
  struct Case {
    std::function<std::unique_ptr<Weighting>()> weighting;
    bool prompts_alone;
  };
  std::vector<Case> cases{{of_even_ones, false}};
  for (const std::optional<When> when :
       {std::optional<When>(), std::optional(When::token), std::optional(When::head), std::optional(When::all)})
    cases.push_back({[=] { return weighting(when); }, true});
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto losses_with = [&](int64_t batch_size, Channels& channels) {
      Experiment mine = experiment;
      mine.train.batch_size = batch_size;
      const test::Answers source(
          [](int64_t position) {
            return test::Answer{{3, 1, 4, 1, 5, 9, 2, 6}, position % 2 == 0 ? 3 : 8};
          },
          batch_size, 12, 3);
      TinyTraining training(mine, cases[i].weighting(), channels,
                            {.training = cases[i].prompts_alone ? &source : nullptr});
      std::vector<double> losses;
      for (int step = 0; step < 3; ++step) losses.push_back(training->step().loss);
      return losses;
    };
    SingleRank rank;
    const auto alone = losses_with(2, rank.channels);
    for (const Strategy strategy : {Strategy::no_shard, Strategy::full_shard}) {
      experiment.parallel.strategy = strategy;
      test::on_ranks(2, [&](Channels& channels) {
        expect_near(losses_with(1, channels), alone, ("case " + std::to_string(i)).c_str());
      });
    }
  }
}

}  // namespace
}  // namespace wmtp
