#include "report/student_t.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TEST(StudentT, HasTheQuantilesOfPrintedTables) {
  EXPECT_NEAR(two_sided_95_t(1), 12.7062, 1e-4);
  EXPECT_NEAR(two_sided_95_t(2), 4.30265, 1e-5);
  EXPECT_NEAR(two_sided_95_t(2.5), 3.57465, 1e-5);
  EXPECT_NEAR(two_sided_95_t(9), 2.26216, 1e-5);
  EXPECT_NEAR(two_sided_95_t(1000), 1.96234, 1e-5);
}

}  // namespace
}  // namespace wmtp
