#include "report/student_t.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace wmtp {
namespace {

TEST(StudentT, HasTheQuantilesOfPrintedTables) {
  EXPECT_NEAR(two_sided_95_t(1), 12.7062, 1e-4);
  EXPECT_NEAR(two_sided_95_t(2), 4.30265, 1e-5);
  EXPECT_NEAR(two_sided_95_t(2.5), 3.57465, 1e-5);
  EXPECT_NEAR(two_sided_95_t(9), 2.26216, 1e-5);
  EXPECT_NEAR(two_sided_95_t(1000), 1.96234, 1e-5);
}

// scipy 1.17: 2 * stats.t.sf(t, freedom)
TEST(StudentT, HasThePValuesOfScipy) {
  EXPECT_NEAR(two_sided_p(1.5, 3), 0.23058386524482294, 1e-15);
  EXPECT_NEAR(two_sided_p(-1.5, 3), 0.23058386524482294, 1e-15);
  EXPECT_NEAR(two_sided_p(40, 2), 0.0006244146721847406, 1e-17);
  EXPECT_EQ(two_sided_p(std::numeric_limits<double>::infinity(), 2), 0);
}

// The power of Student's test, integrated over the chi-squared distribution of the variance with scipy's quad, solved
// for the mean with brentq.
TEST(StudentT, NeedsTheMeanThatTheDefinitionOfPowerNeeds) {
  EXPECT_NEAR(smallest_mean_shown(2, 0.05, 0.8), 11.54988843590284, 1e-6);
  EXPECT_NEAR(smallest_mean_shown(3, 0.05, 0.8), 3.2640435496995717, 1e-6);
  EXPECT_NEAR(smallest_mean_shown(5, 0.05, 0.8), 1.6819969659555554, 1e-6);
  EXPECT_NEAR(smallest_mean_shown(5, 0.0125, 0.8), 2.4767903705182146, 1e-6);
  EXPECT_NEAR(smallest_mean_shown(20, 0.05, 0.8), 0.6604416546230085, 1e-6);
}

}  // namespace
}  // namespace wmtp
