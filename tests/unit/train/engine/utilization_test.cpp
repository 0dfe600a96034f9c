// What a step asks for, counted by hand.
#include "train/utilization.hpp"

#include <gtest/gtest.h>

#include "../../support/ranks.hpp"
#include "tiny_training.hpp"

namespace wmtp {
namespace {

// Of tiny_experiment(): one trunk block, three heads, each of these a block of dim 16 and ffn 24; 40 ids.
constexpr double of_block = 4 * 16 * 16 + 3 * 16 * 24, of_output = 40 * 16, positions = 12,
                 attention = 12 * 16 * positions;

TEST(Utilization, CountsSixOperationsForEachElementOfAMatrixAndToken) {
  test::OneRank rank;
  const Experiment experiment = test::tiny_experiment();
  test::Everything everything;
  const auto model = test::tiny_model(experiment, Heads::all, &everything, 1, rank.channels);
  EXPECT_EQ(operations_per_token(*model, 0, 12), 4 * (6 * of_block + attention) + 3 * 6 * of_output);
}

TEST(Utilization, CountsNoGradientOfAMatrixThatIsFrozenAndNoneBelowTheLowestBlock) {
  class Heads234 : public Adapter {
   public:
    bool trains(const std::string& name) const override { return name.starts_with("extra_heads."); }
  } heads;
  test::OneRank rank;
  const Experiment experiment = test::tiny_experiment();
  const auto model = test::tiny_model(experiment, Heads::all, &heads, 1, rank.channels);
  const double trunk = 2 * of_block + attention / 3, first_head = 4 * of_block + attention;
  const double other_heads = 2 * (6 * of_block + attention);
  EXPECT_EQ(operations_per_token(*model, 1, 12), trunk + first_head + other_heads + 3 * 4 * of_output);
}

TEST(Utilization, IsAShareOfWhatBareMultiplicationReaches) {
  test::OneRank rank;
  test::TinyTraining tiny(test::tiny_experiment(), test::baseline(), rank.channels);
  const auto metrics = tiny->step().metrics;
  EXPECT_GT(metrics.at("perf/mfu"), 0);
  EXPECT_LT(metrics.at("perf/mfu"), 1.5) << "a bare multiplication is measured at its best";
}

}  // namespace
}  // namespace wmtp
