// Promises of optimizer/loss_scale.hpp and optimizer/guard.hpp, seen in whole steps: training in fp16 equals fp32 up to
// rounding, and overflowing gradients are handled.
#include <gtest/gtest.h>

#include "support/ranks.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

using test::AnyStep;
using test::baseline;
using test::on_ranks;
using test::TinyTraining;
using test::Weigh;

Experiment in(Precision precision) {
  Experiment experiment = test::tiny_experiment();
  experiment.parallel.precision = precision;
  return experiment;
}

Tensor parameters_of(TinyTraining& training) {
  std::vector<Tensor> all;
  for (ParameterGroup* group : training->model().trained_groups()) all.push_back(group->gather_master().clone());
  return at::cat(all);
}

std::vector<double> losses_of(const Experiment& experiment, double scale, Channels& channels, int steps = 6) {
  TinyTraining training(experiment, baseline(), channels);
  if (auto& loss_scale = training->state().loss_scale) loss_scale->restore({scale, 0, 2});
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    const StepReport report = training->step();
    EXPECT_EQ(report.skipped, "");
    losses.push_back(report.loss);
    if (experiment.parallel.precision == Precision::fp16) {
      EXPECT_EQ(report.metrics.at("train/loss_scale"), scale);
    }
  }
  return losses;
}

/// fp16 has 11 bits, so the relative error of a number is at most 2^-11; after six steps the relative error of a loss
/// is below 1e-3.
TEST(HalfPrecision, TrainsLikeSinglePrecisionAtAnyScaleAndLayout) {
  SingleRank rank;
  const auto exact = losses_of(in(Precision::fp32), 1, rank.channels);
  const auto expect_near = [&](const std::vector<double>& found, const std::string& what) {
    for (size_t i = 0; i < exact.size(); ++i)
      EXPECT_NEAR(found[i], exact[i], 1e-3 * exact[i]) << what << ", step " << i + 1;
  };
  for (const double scale : {256.0, 65536.0})
    expect_near(losses_of(in(Precision::fp16), scale, rank.channels), "alone");
  Experiment experiment = in(Precision::fp16);
  experiment.train.batch_size = 1;
  for (const Strategy strategy : {Strategy::full_shard, Strategy::no_shard}) {
    experiment.parallel.strategy = strategy;
    on_ranks(2, [&](Channels& channels) { expect_near(losses_of(experiment, 65536, channels), to_string(strategy)); });
  }
}

TEST(HalfPrecision, AnOverflowOnOneRankSkipsTheStepOnAllAndLowersTheScale) {
  // Rank 1 has weights of 1e5: only its gradients overflow.
  const auto heavy_on_rank_1 = [](Channels& channels) {
    return std::make_unique<Weigh>(Needs{}, [&channels](AnyStep step) {
      return Weights::by_source(
          at::full(step.valid().sizes(), channels.rank() == 1 && step.number() <= 3 ? 1e5 : 1.0, at::kFloat));
    });
  };
  for (const Strategy strategy : {Strategy::full_shard, Strategy::no_shard}) {
    Experiment experiment = in(Precision::fp16);
    experiment.parallel.strategy = strategy;
    on_ranks(2, [&](Channels& channels) {
      TinyTraining training(experiment, heavy_on_rank_1(channels), channels);
      const Tensor before = parameters_of(training);
      const double scales[] = {65536, 65536, 32768, 16384};
      for (int step = 1; step <= 4; ++step) {
        const StepReport report = training->step();
        EXPECT_EQ(report.metrics.at("train/loss_scale"), scales[step - 1]) << "step " << step;
        EXPECT_EQ(report.overflowed, step <= 3) << "step " << step;
        EXPECT_EQ(report.skipped.empty(), step > 3) << report.skipped;
        EXPECT_EQ(report.metrics.at("guard/skipped"), 0) << "not skipped by the guard";
        EXPECT_TRUE(std::isfinite(report.loss));
        EXPECT_EQ(at::equal(parameters_of(training), before), step <= 3) << "step " << step;
        EXPECT_EQ(training->state().guard.in_a_row(), 0);
      }
      EXPECT_EQ(training->state().loss_scale->state(), (LossScale::State{16384, 1, 0}));
    });
  }
}

TEST(HalfPrecision, AnOverflowAtTheMinimumScaleGoesToTheGuard) {
  SingleRank rank;
  TinyTraining training(
      in(Precision::fp16),
      std::make_unique<Weigh>(Needs{},
                              [](AnyStep step) { return Weights::by_source(at::full(step.valid().sizes(), 1e8)); }),
      rank.channels);
  training->state().loss_scale->restore({1, 0, 0});
  const StepReport report = training->step();
  EXPECT_FALSE(report.overflowed);
  EXPECT_EQ(report.skipped, "not finite");
  EXPECT_EQ(report.metrics.at("guard/skipped"), 1);
  EXPECT_EQ(training->state().guard.in_a_row(), 1);
}

TEST(HalfPrecision, ANonFiniteLossGoesToTheGuardAtAnyScale) {
  SingleRank rank;
  TinyTraining training(in(Precision::fp16), baseline(), rank.channels);
  for (ParameterGroup* group : training->model().trained_groups()) group->master().fill_(NAN);
  const StepReport report = training->step();
  EXPECT_FALSE(report.overflowed);
  EXPECT_EQ(report.skipped, "not finite");
  EXPECT_EQ(training->state().loss_scale->state(), LossScale::State{}) << "a lower scale would not have helped";
}

TEST(HalfPrecision, OtherPrecisionsHaveNoLossScale) {
  SingleRank rank;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    TinyTraining training(in(precision), baseline(), rank.channels);
    EXPECT_FALSE(training->state().loss_scale);
    EXPECT_EQ(training->step().metrics.count("train/loss_scale"), 0U);
  }
}

}  // namespace
}  // namespace wmtp
