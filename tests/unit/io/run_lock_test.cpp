// The lock of a run's folder is held exactly as long as its process lives.
#include "io/run_lock.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

class RunLockTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "lock-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(RunLockTest, IsHeldWhileItExists) {
  EXPECT_FALSE(RunLock::is_held(folder_));
  {
    const RunLock lock(folder_);
    EXPECT_TRUE(RunLock::is_held(folder_));
  }
  EXPECT_FALSE(RunLock::is_held(folder_));
}

TEST_F(RunLockTest, IsNotHeldByAProcessThatOnlyAsks) {
  { const RunLock ended(folder_); }
  const FileDescriptor asks(open((folder_ / "lock").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(asks.get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_FALSE(RunLock::is_held(folder_));
}

TEST_F(RunLockTest, ANamedPipeInItsPlaceIsNotWaitedFor) {
  ASSERT_EQ(mkfifo((folder_ / "lock").c_str(), 0600), 0);
  EXPECT_FALSE(RunLock::is_held(folder_));
}

TEST_F(RunLockTest, RefusesTheFolderOfARunOfAnotherLog) {
  { const RunLock theirs(folder_); }
  EXPECT_SAYS(test::refusal(ExitStatus::storage, [&] { const RunLock lock(folder_); }), "a run of another log");
}

TEST_F(RunLockTest, IsReleasedWhenItsProcessIsKilled) {
  int output[2];
  ASSERT_EQ(pipe(output), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(folder_);
    if (write(output[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(output[0], &byte, 1), 1);
  EXPECT_TRUE(RunLock::is_held(folder_));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(RunLock::is_held(folder_));
  close(output[0]);
  close(output[1]);
}

}  // namespace
}  // namespace wmtp
