// The operations of a step, counted by hand.
#include "train/utilization.hpp"

#include <gtest/gtest.h>

#include "support/ranks.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

// Of tiny_experiment(): one trunk block, three heads, each of these a block of dim 16 and ffn 24; 40 ids.
constexpr double of_block = 4 * 16 * 16 + 3 * 16 * 24, of_output = 40 * 16, positions = 12,
                 attention = 12 * 16 * positions;

TEST(Utilization, CountsSixOperationsForEachElementOfAMatrixAndToken) {
  SingleRank rank;
  const Experiment experiment = test::tiny_experiment();
  test::Everything everything;
  const auto model = test::tiny_model(experiment, Heads::all, &everything, 1, rank.channels);
  EXPECT_EQ(step_operations(*model).operations(1, 12), 4 * (6 * of_block + attention) + 3 * 6 * of_output);
}

TEST(Utilization, CountsAttentionByTheWidthOfItsHeads) {
  SingleRank rank;
  Experiment experiment = test::tiny_experiment();
  const auto operations = [&] {
    test::Everything everything;
    return step_operations(*test::tiny_model(experiment, Heads::all, &everything, 1, rank.channels)).operations(1, 12);
  };
  const double before = operations();
  experiment.model.head_dim = 2 * experiment.model.dim / experiment.model.heads;  // attention's matrices double too
  EXPECT_EQ(operations(), before + 4 * (6 * 4 * 16 * 16 + attention));
}

TEST(Utilization, CountsNoGradientOfFrozenMatricesNorWhereNothingBelowTrains) {
  class Heads234 : public Adapter {
   public:
    bool trains(const std::string& name) const override { return name.starts_with("extra_heads."); }
  } heads;
  SingleRank rank;
  const Experiment experiment = test::tiny_experiment();
  const auto model = test::tiny_model(experiment, Heads::all, &heads, 1, rank.channels);
  const double not_reached = 2 * of_block + attention / 3, reached = 6 * of_block + attention;
  EXPECT_EQ(step_operations(*model).operations(1, 12), 2 * not_reached + 2 * reached + (2 + 2 * 4) * of_output);
}

TEST(Utilization, CountsABlockAndItsAdapterForEachHeadThatSharesIt) {
  class LowRank : public LinearAdapter {
   public:
    bool trains(const std::string&) const override { return false; }
    std::vector<Param> declare(const Linear& layer) const override {
      return {{"a", {2, layer.in}, Param::Init::uniform, 0.1}, {"b", {layer.out, 2}}};
    }
    at::Tensor forward(const Linear&, const at::Tensor& x, LinearCall& call) const override { return call.base(x); }
    at::Tensor merged(const Linear&, const at::Tensor& weight, const std::vector<at::Tensor>&) const override {
      return weight;
    }
  };
  const test::Everything everything;
  const LowRank low_rank;
  SingleRank rank;
  Experiment experiment = test::tiny_experiment();
  const auto operations = [&](const Adapter& adapter, FutureHeads heads) {
    experiment.model.future_heads = heads;
    return step_operations(*test::tiny_model(experiment, Heads::all, &adapter, 1, rank.channels)).operations(1, 12);
  };
  for (const Adapter* adapter : {static_cast<const Adapter*>(&everything), static_cast<const Adapter*>(&low_rank)})
    EXPECT_EQ(operations(*adapter, FutureHeads::shared), operations(*adapter, FutureHeads::chained));
}

TEST(Utilization, IsAShareOfThePlainMultiplicationRate) {
  SingleRank rank;
  test::TinyTraining tiny(test::tiny_experiment(), test::baseline(), rank.channels);
  const auto metrics = tiny->step().metrics;
  EXPECT_GT(metrics.at("perf/mfu"), 0);
  EXPECT_LT(metrics.at("perf/mfu"), 1.5) << "the plain multiplication's best rate counts";
}

TEST(Utilization, IsMeasuredAgainWhileStepsAreFasterThanTheMeasuredRate) {
  const std::vector<double> rates{100, 300, 200, 1000};  // the machine is busy at first
  size_t measured = 0;
  Utilization utilization(/*ranks=*/2, [&] { return rates.at(measured++); });
  EXPECT_DOUBLE_EQ(utilization.share(500, 1), 2.5);
  EXPECT_TRUE(utilization.doubted());
  utilization.measure();
  EXPECT_DOUBLE_EQ(utilization.share(500, 1), 500.0 / 600);
  EXPECT_FALSE(utilization.doubted()) << "a share of less than 1 is possible";
  EXPECT_EQ(measured, 2u);
  utilization.measure();
  EXPECT_DOUBLE_EQ(utilization.share(500, 1), 500.0 / 600) << "the best of all measurements counts";
}

TEST(Utilization, IsMeasuredALimitedNumberOfTimes) {
  Utilization utilization(1, [] { return 1.0; });
  int measured = 1;
  for (utilization.share(500, 1); utilization.doubted(); utilization.share(500, 1), ++measured) utilization.measure();
  EXPECT_EQ(measured, Utilization::max_measurements);
}

TEST(Utilization, OfARunFollowsFromItsTokensAndSeconds) {
  SingleRank rank;
  test::TinyTraining tiny(test::tiny_experiment(), test::baseline(), rank.channels);
  double tokens = 0, seconds = 0;
  for (int step = 0; step < 3; ++step) {
    const auto metrics = tiny->step().metrics;
    seconds += metrics.at("perf/step_seconds");
    tokens += metrics.at("perf/step_seconds") * metrics.at("perf/tokens_per_second");
    EXPECT_DOUBLE_EQ(metrics.at("perf/run_seconds"), seconds);
    EXPECT_NEAR(metrics.at("perf/run_tokens"), tokens, 1e-6);
    EXPECT_EQ(metrics.at("perf/run_tokens"), metrics.at("train/tokens"));
  }
}

}  // namespace
}  // namespace wmtp
