#include "process/child_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <future>
#include <thread>

#include "base/error.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

using namespace std::chrono_literals;

ChildResult shell(const std::string& script, std::chrono::milliseconds limit = 30s) {
  return run_child("/bin/sh", {"-c", script}, limit);
}

std::string refusal(const ChildRequest& request, ExitStatus status = ExitStatus::storage) {
  return test::refusal(status, [&] { ChildProcess child(request); });
}

TEST(OwnProgram, IsTheRunningExecutable) { EXPECT_EQ(own_program().filename(), "unit_process"); }

TEST(OwnProgram, FailsWithoutProc) {
  const std::string text = test::refusal(ExitStatus::storage, [] { own_program("/proc/self/none"); });
  EXPECT_SAYS(text, "cannot find this program through /proc/self/none");
  EXPECT_SAYS(text, "mount /proc");
}

TEST(RunChild, ReturnsOutputMessagesAndExitCode) {
  const ChildResult child = shell("echo out; echo err >&2; exit 5");
  EXPECT_EQ(child.output, "out\n");
  EXPECT_EQ(child.messages, "err\n");
  EXPECT_EQ(child.exit_code, 5);
  EXPECT_EQ(child.signal, 0);
  EXPECT_EQ(shell("kill -TERM $$").signal, SIGTERM);
}

TEST(RunChild, ReadsMoreThanAPipeHoldsAndKeepsTheLastMessages) {
  const ChildResult child = shell("head -c 3000000 /dev/zero; head -c 100000 /dev/zero >&2; echo last >&2");
  EXPECT_EQ(child.output.size(), 3'000'000u);
  EXPECT_EQ(child.messages.size(), size_t{16} << 10);
  EXPECT_TRUE(child.messages.ends_with("last\n"));
}

TEST(RunChild, KillsTheGroupAtTheDeadlineAndAtTheLimitOfOutput) {
  const ChildResult slow = shell("sleep 60 & sleep 60", 200ms);
  EXPECT_TRUE(slow.timed_out);
  EXPECT_EQ(slow.signal, SIGKILL);
  const ChildResult loud = shell("cat /dev/zero");
  EXPECT_FALSE(loud.timed_out);
  EXPECT_EQ(loud.signal, SIGKILL);
}

TEST(RunChild, RunsCodeInACopyOfThisProcess) {
  int value = 1;
  ChildRequest request;
  request.code = [&value] {
    value = 2;
    std::printf("%d\n", value);
    std::fprintf(stderr, "%d\n", fcntl(STDERR_FILENO + 1, F_GETFD));
    return 5;
  };
  const Pipe open = Pipe::open();  // the child must not have it
  const ChildResult child = run_child(request, 30s);
  EXPECT_EQ(child.output, "2\n");
  EXPECT_EQ(child.messages, "-1\n");
  EXPECT_EQ(child.exit_code, 5);
  EXPECT_EQ(value, 1);
  request.code = [] { return pause(); };
  EXPECT_TRUE(run_child(request, 200ms).timed_out);
}

TEST(RunChild, RefusesToRunCodeWhileThisProcessHasOtherThreads) {
  ChildRequest request;
  request.code = [] { return 0; };
  std::promise<void> end;
  std::thread other([&] { end.get_future().wait(); });
  EXPECT_EQ(refusal(request, ExitStatus::bug), "cannot fork: found 2 threads in this process, wanted 1");
  end.set_value();
  other.join();
}

TEST(RunChild, DoesNotWaitForProcessesThatTheChildLeaves) {
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(shell("sleep 60 & echo started").output, "started\n");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 30s);
}

TEST(ChildProcess, IsNotStartedWithTheCause) {
  ChildRequest request;
  request.program = "/nowhere/program";
  EXPECT_NE(refusal(request).find("cannot start /nowhere/program: No such file"), std::string::npos);
  request.program = "/bin/sh";
  request.before_exec = [] {
    errno = EACCES;
    return false;
  };
  EXPECT_NE(refusal(request).find("cannot start /bin/sh: Permission denied"), std::string::npos);
}

TEST(ChildProcess, HasExactlyTheGivenDescriptors) {
  Pipe to_child = Pipe::open(), from_child = Pipe::open();
  ChildRequest request;
  request.program = "/bin/sh";
  request.arguments = {"-c", "read line; echo \"$line\"; exec ls /proc/self/fd"};
  // 1 becomes 2 and 2 becomes 3: placing one must not overwrite another.
  request.descriptors = {to_child.read_end.get(), from_child.write_end.get(), 1, 2};
  ChildProcess child(request);
  from_child.write_end.reset();
  ASSERT_EQ(write(to_child.write_end.get(), "hello\n", 6), 6);
  EXPECT_EQ(child.wait(), 0);
  std::string text;
  while (read_available(from_child.read_end.get(), text, 1000)) {
  }
  EXPECT_EQ(text, "hello\n0\n1\n2\n3\n4\n") << "4 is the folder that ls reads";
  EXPECT_EQ(child.stdout_pipe(), -1);
}

TEST(ChildProcess, ItsDestructorEndsIt) {
  pid_t id = 0;
  {
    ChildRequest request;
    request.program = "/bin/sleep";
    request.arguments = {"60"};
    const ChildProcess child(request);
    id = child.id();
    EXPECT_EQ(kill(id, 0), 0);
  }
  EXPECT_EQ(kill(id, 0), -1);
}

}  // namespace
}  // namespace wmtp
