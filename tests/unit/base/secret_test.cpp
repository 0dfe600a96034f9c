#include "base/secret.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TEST(Secret, NoTokenIsDrawnTwice) {
  EXPECT_EQ(drawn_token().size(), 32u);
  EXPECT_NE(drawn_token(), drawn_token());
}

}  // namespace
}  // namespace wmtp
