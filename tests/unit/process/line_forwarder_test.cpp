#include "process/line_forwarder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

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

TEST(LineSink, DoesNotWaitForTheRoomThatAnotherSinkOfItsPipeTook) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  fcntl(pipe[1], F_SETFL, O_NONBLOCK);
  const std::string page(4096, 'x');
  while (write(pipe[1], page.data(), page.size()) == ssize_t(page.size())) {
  }
  fcntl(pipe[1], F_SETFL, 0);
  std::string taken = page;
  ASSERT_EQ(read(pipe[0], taken.data(), taken.size()), ssize_t(page.size()));
  LineSink out(pipe[1]), err(pipe[1]);
  for (LineSink* sink : {&out, &err}) sink->line("", page.substr(1));
  forward_some(-1, out, err, {}, /*timeout_ms=*/0);
  EXPECT_TRUE(out.has_room());
  EXPECT_FALSE(err.has_room()) << "it waits for a reader, and the launcher does not";
  for (const int end : pipe) close(end);
}

}  // namespace
}  // namespace wmtp
