#include "base/secret.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TEST(Secret, NoTokenIsDrawnTwice) {
  EXPECT_EQ(random_token().size(), 32u);
  EXPECT_NE(random_token(), random_token());
}

}  // namespace
}  // namespace wmtp
