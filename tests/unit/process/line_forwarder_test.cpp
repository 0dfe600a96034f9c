#include "process/line_forwarder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace wmtp {
namespace {

TEST(LineSink, WritesWholeLinesAndNothingToTheNullDevice) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  LineSink sink(pipe[1]);
  sink.line("[rank 1] ", "a line");
  EXPECT_FALSE(sink.has_room());
  sink.flush();
  std::array<char, 100> bytes{};
  const ssize_t got = read(pipe[0], bytes.data(), bytes.size());
  EXPECT_EQ(std::string(bytes.data(), size_t(got)), "[rank 1] a line\n");
  for (const int end : pipe) close(end);

  const int null = open("/dev/null", O_RDWR);
  LineSink unread(null);
  unread.line("", "a line");
  EXPECT_TRUE(unread.has_room()) << "it is not even kept";
  close(null);
}

}  // namespace
}  // namespace wmtp
