#include "step/step_totals.hpp"

#include <gtest/gtest.h>

#include "support/ranks.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

using test::on_ranks;

TEST(StepTotals, AreSummedInDoubleFromAnyDtype) {
  SingleRank rank;
  StepTotals totals;
  totals.add("a", at::full({}, 1.0, at::kBFloat16));
  totals.add("a", at::full({1}, int64_t{1} << 40, at::kLong));
  totals.add("a", 0.5);
  totals.add("b", at::full({}, 2.0).requires_grad_(true));
  totals.exchange(rank.channels);
  EXPECT_EQ(totals.sum("a"), 1.0 + double(int64_t{1} << 40) + 0.5);
  EXPECT_EQ(totals.sum("b"), 2.0);
  EXPECT_TRUE(totals.has("a"));
  EXPECT_FALSE(totals.has("c"));
}

TEST(StepTotals, KeepTheAddedValueWhenTheTensorChangesLater) {
  SingleRank rank;
  StepTotals totals;
  at::Tensor mean = at::full({}, 2.0, at::kDouble);
  totals.add("mean", mean);
  mean.fill_(7.0);
  totals.exchange(rank.channels);
  EXPECT_EQ(totals.sum("mean"), 2.0);
}

TEST(StepTotals, AreAvailablePerRankAndOverAllRanks) {
  on_ranks(3, [](Channels& channels) {
    StepTotals totals;
    totals.add("loss", double(channels.rank() + 1));
    totals.add("other", 10.0);
    totals.exchange(channels);
    EXPECT_EQ(totals.sum("loss"), 6.0);
    EXPECT_EQ(totals.sum("other"), 30.0);
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(totals.value_on_rank("loss", rank), rank + 1.0);
  });
}

TEST(StepTotals, FindNamesByPrefix) {
  SingleRank rank;
  StepTotals totals;
  for (const char* name : {"plugin_sum/b", "plugin_sum/a/c", "plugin_sun", "plugin", "z"}) totals.add(name, 1.0);
  EXPECT_EQ(totals.names_with("plugin_sum/"), (std::vector<std::string>{"a/c", "b"}));
  EXPECT_TRUE(totals.names_with("nothing").empty());
}

TEST(StepTotals, RefuseRanksWithDifferentNames) {
  on_ranks(2, [](Channels& channels) {
    StepTotals totals;
    totals.add(channels.rank() == 0 ? "plugin_sum/x" : "plugin_sum/y", 1.0);
    EXPECT_SAYS(test::refusal(ExitStatus::plugin, [&] { totals.exchange(channels); }), "rank");
  });
}

}  // namespace
}  // namespace wmtp
