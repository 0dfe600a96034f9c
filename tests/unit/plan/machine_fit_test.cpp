#include "plan/machine_fit.hpp"

#include <gmock/gmock.h>

namespace wmtp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t mib = 1 << 20;

TEST(Fit, RefusesRanksThatNeedMoreThanTheAvailableMemory) {
  EXPECT_EQ(misfit({4, 100 * mib, "head_1", false}, {2, 400 * mib}), "");
  EXPECT_THAT(
      misfit({4, 101 * mib, "head_1", false}, {2, 400 * mib}),
      AllOf(HasSubstr("4 ranks of 101 MiB each"), HasSubstr("most in head_1"), HasSubstr("400 MiB of memory available"),
            HasSubstr("train.batch_size"), HasSubstr("fewer processes")));
  EXPECT_EQ(misfit({4, int64_t{1} << 60, "head_1", false}, {2, std::nullopt}), "")
      << "the device's memory is not checked";
}

TEST(Fit, RefusesMoreThanEightRanksPerCoreUnlessOversubscribed) {
  EXPECT_EQ(misfit({16, mib, "head_1", false}, {2, 400 * mib}), "");
  EXPECT_THAT(misfit({17, mib, "head_1", false}, {2, 400 * mib}),
              AllOf(HasSubstr("17 ranks of 1 MiB each"), HasSubstr("2 usable cores, at most 16"),
                    HasSubstr("parallel.oversubscribe = true")));
  EXPECT_EQ(misfit({17, mib, "head_1", true}, {2, 400 * mib}), "");
}

TEST(Fit, OnlySmallExperimentsSkipThePlan) {
  Experiment small;
  small.model.dim = small.model.ffn_dim = 64;
  small.model.heads = small.model.kv_heads = 4;
  small.model.layers = 2;
  small.model.vocab_size = 512;
  small.train.batch_size = 2;
  small.train.sequence_length = 64;
  small.parallel.processes = 2;
  const Machine machine{2, 4096 * mib};
  EXPECT_TRUE(surely_fits(small, machine));
  EXPECT_TRUE(surely_fits(small, {2, std::nullopt}));
  Experiment other = small;
  other.train.sequence_length = 1 << 24;
  EXPECT_FALSE(surely_fits(other, machine));
  other = small;
  other.model.vocab_size = 1 << 24;
  EXPECT_FALSE(surely_fits(other, machine));
  other = small;
  other.parallel.processes = 17;
  EXPECT_FALSE(surely_fits(other, machine));
  other.parallel.processes = 32;
  EXPECT_TRUE(surely_fits(other, {2, 4096 * mib, /*hosts=*/2}));
  other = small;
  other.adapter.options["rank"] = int64_t{65536};
  EXPECT_FALSE(surely_fits(other, machine)) << "only the plugin knows its number of parameters";
}

}  // namespace
}  // namespace wmtp
