#include "base/status_line.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TEST(StatusLine, IsCutByTheColumnsThatATerminalNeedsForIt) {
  EXPECT_EQ(truncate_status("step 1/5", 8), "step 1/5");
  EXPECT_EQ(truncate_status("step 1/5", 7), "step 1…");
  EXPECT_EQ(truncate_status("größe", 5), "größe") << "bytes are not columns";
  EXPECT_EQ(truncate_status("größe", 4), "grö…");
  EXPECT_EQ(truncate_status("训练模型", 8), "训练模型");
  EXPECT_EQ(truncate_status("训练模型", 7), "训练模…");
  EXPECT_EQ(truncate_status("训练模型", 6), "训练…") << "two columns each";
  EXPECT_EQ(truncate_status("a🚀b", 4), "a🚀b");
  EXPECT_EQ(truncate_status("a🚀b", 3), "a…");
  EXPECT_EQ(truncate_status("run", 1), "…");
  EXPECT_EQ(truncate_status("run", 0), "");
}

TEST(StatusLine, HoldsNothingThatMovesTheCursor) {
  EXPECT_EQ(truncate_status("a\nb\x1b[K\x7f\u0085", 20), "a?b?[K??");
  EXPECT_EQ(truncate_status("caf\xe9 1", 20), "caf\uFFFD 1");
}

}  // namespace
}  // namespace wmtp
