#include "process/fork_server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "base/error.hpp"
#include "support/refusal.hpp"
#include "support/running.hpp"

namespace wmtp {
namespace {

using namespace std::chrono_literals;

/// A server whose children call `child` with their arguments.
ChildRequest server_of(const std::function<int(const std::vector<std::string>&)>& child) {
  ChildRequest request;
  request.program = "server";
  request.code = [child] {
    const auto arguments = serve_forks();
    return arguments ? child(*arguments) : 0;
  };
  return request;
}

std::string text_of(int pipe) {
  std::string text;
  while (read_available(pipe, text, 1 << 20)) std::this_thread::sleep_for(1ms);
  return text;
}

TEST(ForkServer, StartsChildrenOfThisProcess) {
  ForkServer server(server_of([](const auto& arguments) { return std::stoi(arguments.at(0)); }));
  for (const int code : {0, 7, 100}) {
    ChildRequest request;
    request.arguments = {std::to_string(code)};
    ChildProcess child = server.start(request);
    EXPECT_EQ(WEXITSTATUS(child.wait()), code);
  }
  int orphans = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &orphans);
  EXPECT_EQ(orphans, 0) << "a subreaper only while a child is started";
}

TEST(ForkServer, LeavesRequestsToStopToThisProcessAndTheChildren) {
  auto* const server_id =
      static_cast<pid_t*>(mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ChildRequest request = server_of([](const auto&) {
    raise(SIGTERM);
    return 1;
  });
  request.code = [server_id, serve = request.code] {
    *server_id = getpid();
    return serve();
  };
  ForkServer server(request);
  server.wait_until_ready();
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) kill(*server_id, signal);
  const int status = server.start({}).wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  munmap(server_id, sizeof(pid_t));
}

TEST(ForkServer, GivesAChildItsOwnStreamsEnvironmentAndGroup) {
  setenv("OF_THE_SERVER", "1", 1);
  ForkServer server(server_of([](const auto& arguments) {
    std::printf("%s %s %s %d\n", arguments.at(1).c_str(), std::getenv("NUMBER"),
                std::getenv("OF_THE_SERVER") ? "kept" : "replaced", getpgid(0) == getpid());
    std::fprintf(stderr, "%zd\n", read(STDIN_FILENO, nullptr, 0));
    return 0;
  }));
  unsetenv("OF_THE_SERVER");
  for (const std::string number : {"1", "2"}) {
    ChildRequest request;
    request.arguments = {"", std::string(200'000, 'a') + number};
    request.environment = {"NUMBER=" + number + "=0"};
    ChildProcess child = server.start(request);
    EXPECT_EQ(text_of(child.stdout_pipe()), request.arguments[1] + " " + number + "=0 replaced 1\n");
    EXPECT_EQ(text_of(child.stderr_pipe()), "0\n") << "stdin is /dev/null";
    EXPECT_EQ(child.wait(), 0);
  }
}

TEST(ForkServer, SharesWhatItHasLoaded) {
  int loaded = 0;
  ChildRequest request;
  request.code = [&loaded] {
    ++loaded;
    return serve_forks() ? loaded : 0;
  };
  ForkServer server(request);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(WEXITSTATUS(server.start({}).wait()), 1);
}

TEST(ForkServer, LeavesItsChildrenRunningWhenItEnds) {
  std::optional<ForkServer> server(server_of([](const auto&) {
    std::this_thread::sleep_for(200ms);
    return 9;
  }));
  ChildProcess child = server->start({});
  server.reset();
  EXPECT_EQ(WEXITSTATUS(child.wait()), 9);
}

TEST(ForkServer, ItsChildrenAreSignalledAndKilledLikeOthers) {
  ForkServer server(server_of([](const auto&) {
    std::this_thread::sleep_for(60s);
    return 0;
  }));
  ChildProcess terminated = server.start({}), killed = server.start({});
  EXPECT_FALSE(terminated.wait_status());
  terminated.send(SIGTERM);
  EXPECT_EQ(WTERMSIG(terminated.wait()), SIGTERM);
  killed.kill_group();
  EXPECT_EQ(WTERMSIG(killed.wait()), SIGKILL);
}

TEST(ForkServer, ItsChildrenEndWithThisProcess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    ForkServer server(server_of([](const auto&) {
      std::this_thread::sleep_for(60s);
      return 0;
    }));
    const pid_t child = server.start({}).id();
    [[maybe_unused]] const auto written = write(ends[1], &child, sizeof child);
    std::this_thread::sleep_for(60s);
    _exit(0);
  }
  pid_t child = 0;
  ASSERT_EQ(read(ends[0], &child, sizeof child), ssize_t(sizeof child));
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  for (int i = 0; i < 500 && test::is_running(child); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(test::is_running(child));
  close(ends[0]);
  close(ends[1]);
}

TEST(ForkServer, SaysHowAServerEnded) {
  const auto refused = [](const std::function<int()>& code) {
    ChildRequest request;
    request.program = "server";
    request.code = code;
    ForkServer server(request);
    return test::refusal(ExitStatus::bug, [&] { server.wait_until_ready(); });
  };
  EXPECT_EQ(refused([] { return 41; }), "server ended with exit code 41 before it started a process");
  EXPECT_EQ(refused([] { return raise(SIGKILL); }), "server was killed by SIGKILL before it started a process");
}

TEST(ForkServer, NamesALimitAfterWhatWasNotDone) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = rlim_t{1} << 40;
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &lower), 0);
  const std::string limit = "; ulimit -d (KiB of data) is 1073741824, raise it";
  EXPECT_EQ(exit_text(SIGABRT, "before it started a process"),
            "was killed by SIGABRT before it started a process" + limit);
  EXPECT_EQ(exit_text(127 << 8, "before it started a process"),
            "ended with exit code 127, that of the dynamic linker, which printed what it misses" + limit);
  setrlimit(RLIMIT_DATA, &before);
}

TEST(ForkServer, RefusesToForkWithOtherThreads) {
  ChildRequest request;
  request.code = [] {
    std::jthread other([] { std::this_thread::sleep_for(300ms); });
    try {
      serve_forks();
    } catch (const Error&) {
      return 33;
    }
    return 0;
  };
  ForkServer server(request);
  EXPECT_SAYS(test::refusal(ExitStatus::bug, [&] { server.start({}); }), "exit code 33");
}

}  // namespace
}  // namespace wmtp
