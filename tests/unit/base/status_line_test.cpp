#include "base/status_line.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

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

TEST(StatusLine, IsLeftOutWhereNobodyReads) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  fcntl(pipe[1], F_SETFL, O_NONBLOCK);
  while (write(pipe[1], "x", 1) == 1) {
  }
  fcntl(pipe[1], F_SETFL, 0);
  const int saved = dup(STDERR_FILENO);
  dup2(pipe[1], STDERR_FILENO);
  show_status("step 1/5");  // would wait for a reader
  std::array<char, 1 << 17> bytes{};
  const ssize_t unread = read(pipe[0], bytes.data(), bytes.size());
  show_status("step 2/5");
  dup2(saved, STDERR_FILENO);
  const ssize_t shown = read(pipe[0], bytes.data(), bytes.size());
  for (const int end : {pipe[0], pipe[1], saved}) close(end);
  EXPECT_GT(unread, 0);
  EXPECT_EQ(std::string(bytes.data(), size_t(shown)), "step 2/5\n");
}

}  // namespace
}  // namespace wmtp
