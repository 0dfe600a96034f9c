// Each test forks a process that handles requests to stop, and asks it to stop.
#include "launch/launcher_stop_handler.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "process/stop_requests.hpp"

namespace wmtp {
namespace {

/// The exit code of a process that does this.
int exit_code_of(const std::function<int()>& process) {
  const pid_t child = fork();
  if (child == 0) {
    const LauncherStopHandler handler;
    _exit(process());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(LauncherStopHandler, EndsTheProcessBeforeItsRanksStartAndAfterTheyAreRecorded) {
  EXPECT_EQ(exit_code_of([] { return raise(SIGTERM); }), 75);
  EXPECT_EQ(exit_code_of([] {
              note_ranks_start();
              if (note_ranks_recorded()) return 1;
              return raise(SIGINT);
            }),
            75);
}

TEST(LauncherStopHandler, LetsTheProcessRecordItsRanksAndTellsItThatARequestHasWaited) {
  EXPECT_EQ(exit_code_of([] {
              note_ranks_start();
              raise(SIGTERM);
              if (!note_ranks_recorded()) return 1;
              raise(SIGTERM);  // the same request
              return 21;
            }),
            21);
}

TEST(LauncherStopHandler, EndsTheProcessWhenTheRequestIsRepeatedLater) {
  EXPECT_EQ(exit_code_of([] {
              note_ranks_start();
              raise(SIGTERM);
              repeat_stop(getpid(), SIGTERM);
              return 1;
            }),
            75);
}

}  // namespace
}  // namespace wmtp
