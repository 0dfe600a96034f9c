// What /proc/PID/stat says of real processes.
#include "process/process_stat.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace wmtp {
namespace {

using std::chrono::system_clock;

TEST(ProcessStatTest, TellsWhenAProcessBeganAndWhetherItIsStopped) {
  const auto before = system_clock::now() - std::chrono::milliseconds(50);  // known to about 10 ms
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  const auto stopped = process_stat(child);
  kill(child, SIGCONT);
  waitpid(child, &status, 0);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_TRUE(stopped->is_stopped());
  EXPECT_GE(stopped->begun, before);
  EXPECT_LE(stopped->begun, system_clock::now() + std::chrono::milliseconds(50));
  EXPECT_FALSE(process_stat(child).has_value()) << "it is gone";
}

TEST(ProcessStatTest, SkipsANameWithSpacesAndParentheses) {
  const auto own = process_stat(getpid());
  ASSERT_TRUE(own.has_value());
  EXPECT_FALSE(own->is_stopped());
  const pid_t child = fork();
  if (child == 0) {
    const char name[] = "a) T (b";
    FILE* comm = std::fopen("/proc/self/comm", "w");
    std::fputs(name, comm);
    std::fclose(comm);
    _exit(process_stat(getpid())->state == 'R' ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace wmtp
