#include "study/statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace wmtp {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// The expected numbers are scipy 1.17's: ttest_1samp, its confidence_interval, and bootstrap with 200,000 resamples and
// method="percentile".
TEST(Statistics, AgreesWithScipyAboutPairedDifferences) {
  const PairedDifference found = paired_difference({-0.075, -0.12, 0.03, -0.09, -0.01});
  EXPECT_EQ(found.pairs, 5);
  EXPECT_NEAR(found.mean, -0.053, 1e-15);
  EXPECT_NEAR(found.deviation, 0.061400325732035, 1e-15);
  EXPECT_NEAR(*found.p, 0.1257942472660171, 1e-12);
  EXPECT_NEAR(found.interval->first, -0.12923857393945204, 1e-12);
  EXPECT_NEAR(found.interval->second, 0.02323857393945203, 1e-12);
  EXPECT_NEAR(found.bootstrap->first, -0.099, 3e-3);
  EXPECT_NEAR(found.bootstrap->second, -0.002, 3e-3);
}

TEST(Statistics, DrawsTheSameResamplesEachTime) {
  const std::vector<double> values{1, 2, 4, 8};
  EXPECT_EQ(paired_difference(values).bootstrap, paired_difference(values).bootstrap);
}

TEST(Statistics, SaysNothingOfOnePair) {
  const PairedDifference one = paired_difference({0.5}), none = paired_difference({});
  EXPECT_EQ(one.mean, 0.5);
  EXPECT_FALSE(one.p || one.interval || one.bootstrap || none.p);
}

TEST(Statistics, TestsNothingAgainstNoNoise) {
  EXPECT_EQ(*paired_difference({0, 0, 0}).p, 1);
  for (const double equal : {-1.0, 0.1, 3.0 / 512}) {
    const PairedDifference found = paired_difference({equal, equal, equal});
    EXPECT_NEAR(found.mean, equal, 1e-15);
    EXPECT_FALSE(found.p || found.interval || found.bootstrap) << equal;
  }
}

// statsmodels' multipletests(method="holm"), and the definition: the k-th smallest of m times m - k + 1, never less
// than the one before.
TEST(Statistics, CorrectsAsHolm) {
  EXPECT_THAT(holm({0.01, 0.04, 0.03, 0.005}, 4), ElementsAre(DoubleNear(0.03, 1e-15), DoubleNear(0.06, 1e-15),
                                                              DoubleNear(0.06, 1e-15), DoubleNear(0.02, 1e-15)));
  EXPECT_THAT(holm({0.9, 0.8}, 2), ElementsAre(1, 1));
  EXPECT_THAT(holm({}, 0), ElementsAre());
  EXPECT_THAT(holm({0.03, 0.01}, 4), ElementsAre(DoubleNear(0.09, 1e-15), DoubleNear(0.04, 1e-15)))
      << "with two of 1 in the family";
}

TEST(Statistics, ShowsLessWithMoreTests) {
  EXPECT_NEAR(smallest_difference(2, 5, 1), 2 * 1.6819969659555554, 1e-5);
  EXPECT_NEAR(smallest_difference(2, 5, 4), 2 * 2.4767903705182146, 1e-5);
}

}  // namespace
}  // namespace wmtp
