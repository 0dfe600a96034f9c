// Real processes: each test forks a launcher whose ranks are /bin/sh scripts, and checks its output.
#include "launch/rank_launcher.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>

#include "comm/network.hpp"
#include "support/running.hpp"

namespace wmtp {
namespace {

using namespace std::chrono_literals;

std::string read_all(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

class LauncherTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "launcher-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    if (launcher_ > 0) {
      kill(launcher_, SIGKILL);
      waitpid(launcher_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  /// A rank that reaches the end of the script has finished.
  LaunchRequest script(const std::string& text, int num_ranks) {
    LaunchRequest request;
    request.start_rank = [](ChildRequest rank) {
      rank.program = "/bin/sh";
      return ChildProcess(rank);
    };
    request.arguments = {"-c", "cd '" + folder_.string() + "'\n" + text + "\nexit 100"};
    request.num_ranks = num_ranks;
    request.grace_seconds = 0.3;
    request.kill_seconds = 0.3;
    return request;
  }

  void start(const LaunchRequest& request) {
    begin_ = std::chrono::steady_clock::now();
    launcher_ = fork();
    ASSERT_GE(launcher_, 0);
    if (launcher_ > 0) return;
    alarm(30);  // a launcher that hangs fails its test
    dup2(open((folder_ / "out").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), STDOUT_FILENO);
    dup2(open((folder_ / "err").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), STDERR_FILENO);
    int code = 99;
    try {
      const LaunchResult result = launch_ranks(request);
      std::ofstream(folder_ / "result") << result.reason;
      code = int(result.status);
    } catch (const Error& error) {
      std::ofstream(folder_ / "error") << error.what();
      code = int(error.status());
    }
    _exit(code);
  }

  int finish() {
    int status = 0;
    waitpid(std::exchange(launcher_, -1), &status, 0);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  int launch(const LaunchRequest& request) {
    start(request);
    return finish();
  }

  void wait_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
    ASSERT_TRUE(condition());
  }
  void wait_for_file(const std::string& name) {
    wait_until([&] { return std::filesystem::exists(folder_ / name); });
  }

  bool alive(const std::string& pid_file) { return test::is_running(std::stoi(read_all(folder_ / pid_file))); }

  std::string out() { return read_all(folder_ / "out"); }
  std::string err() { return read_all(folder_ / "err"); }
  std::string reason() { return read_all(folder_ / "result"); }

  std::filesystem::path folder_;
  pid_t launcher_ = -1;
  std::chrono::steady_clock::time_point begin_;
  double seconds_ = 0;
};

TEST_F(LauncherTest, GivesEachRankItsPlaceInTheJob) {
  EXPECT_EQ(launch(script("echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $WMTP_LAUNCHER > r$RANK;"
                          "echo $MASTER_PORT > port$RANK; echo $WMTP_TOKEN > token$RANK",
                          3)),
            0);
  EXPECT_EQ(read_all(folder_ / "r0"), "0 0 3 3 127.0.0.1 1\n");
  EXPECT_EQ(read_all(folder_ / "r2"), "2 2 3 3 127.0.0.1 1\n");
  EXPECT_EQ(read_all(folder_ / "port0"), read_all(folder_ / "port2"));
  EXPECT_GT(std::stoi(read_all(folder_ / "port0")), 1023);
  const std::string token = read_all(folder_ / "token0");
  EXPECT_EQ(token.size(), 33u) << "128 bits, and the end of the line";
  EXPECT_EQ(read_all(folder_ / "token2"), token);
  EXPECT_EQ(launch(script("echo $WMTP_TOKEN > token$RANK", 1)), 0);
  EXPECT_NE(read_all(folder_ / "token0"), token) << "each job has its own";
}

TEST_F(LauncherTest, EndsARankThatIsStillThereWhenTheTimeoutHasPassedSinceAnotherEnded) {
  for (const int ending : {100, 75}) {
    const std::string code = std::to_string(ending);
    auto request = script("[ $RANK = 0 ] || kill -STOP $$; exit " + code, 2);
    request.timeout_seconds = 0.4;
    EXPECT_EQ(launch(request), ending == 75 ? 75 : 6);
    EXPECT_EQ(reason(), ending == 75 ? "rank 0 ended with exit code 75" : "rank 1 was killed by SIGKILL");
    EXPECT_GT(seconds_, 0.4);
    EXPECT_NE(err().find("rank 0 ended 0.4 s ago (parallel.timeout_seconds)\nrank 1 is still running"),
              std::string::npos)
        << err();
  }
}

TEST_F(LauncherTest, PassesTheExtraEnvironment) {
  auto request = script("echo $WMTP_EXTRA", 1);
  request.environment["WMTP_EXTRA"] = "a value";
  EXPECT_EQ(launch(request), 0);
  EXPECT_EQ(out(), "a value\n");
}

TEST_F(LauncherTest, NeverMixesTwoLinesAndKeepsARanksOrder) {
  EXPECT_EQ(
      launch(script("i=0; while [ $i -lt 300 ]; do printf 'begin %s ' $i; printf 'middle '; echo end; i=$((i+1)); "
                    "done",
                    3)),
      0);
  std::istringstream lines(out());
  int next[3] = {0, 0, 0};
  for (std::string line; std::getline(lines, line);) {
    int rank = 0;
    if (line[0] == '[') {
      rank = line[6] - '0';
      line = line.substr(9);
    }
    EXPECT_EQ(line, "begin " + std::to_string(next[rank]++) + " middle end");
  }
  for (int count : next) EXPECT_EQ(count, 300);
}

TEST_F(LauncherTest, EndsALastLineThatHasNoNewline) {
  EXPECT_EQ(launch(script("printf 'half a line'; printf error >&2", 2)), 0);
  EXPECT_EQ(count_of(out(), "half a line\n"), 2u);
  EXPECT_EQ(count_of(out(), "[rank 1] half a line\n"), 1u);
  EXPECT_EQ(count_of(err(), "[rank 1] error\n"), 1u);
}

TEST_F(LauncherTest, KeepsOutAndErrApart) {
  EXPECT_EQ(launch(script("echo out; echo err >&2", 1)), 0);
  EXPECT_EQ(out(), "out\n");
  EXPECT_EQ(err(), "err\n");
}

TEST_F(LauncherTest, ReturnsTheExitCodeOfTheRankThatFailed) {
  for (const int code : {2, 3, 4, 5, 6, 7, 8, 70, 75}) {
    EXPECT_EQ(launch(script("[ $RANK = 1 ] && exit " + std::to_string(code) + "; exit 100", 2)), code);
    EXPECT_EQ(reason(), "rank 1 ended with exit code " + std::to_string(code));
  }
}

TEST_F(LauncherTest, LetsAFaultOfItsOwnKindWinOverLostPeers) {
  const auto code_of = [&](const std::string& text, int ranks) {
    auto request = script(text, ranks);
    request.grace_seconds = request.kill_seconds = 10;
    return launch(request);
  };
  EXPECT_EQ(code_of("[ $RANK = 1 ] || exit 6; sleep 0.1; exit 4", 3), 4);
  EXPECT_EQ(code_of("[ $RANK = 1 ] || exit 75; sleep 0.1; exit 5", 2), 5);
  EXPECT_EQ(code_of("[ $RANK = 1 ] || exit 6; sleep 0.1; exit 75", 2), 75);
}

TEST_F(LauncherTest, TakesTheFirstOfTwoDifferentFaults) {
  // A zombie stays in /proc until the launcher has taken note of it.
  EXPECT_EQ(launch(script("[ $RANK = 1 ] && { echo $$ > one; exit 3; }\n"
                          "while [ ! -s one ] || [ -e /proc/$(cat one) ]; do sleep 0.02; done; exit 4",
                          2)),
            3);
}

TEST_F(LauncherTest, TellsThatARankFailedAfterTheCauseThatAnotherReports) {
  auto request = script("[ $RANK = 1 ] && exit 2; sleep 0.1; echo the cause >&2; exit 2", 2);
  request.grace_seconds = request.kill_seconds = 10;
  EXPECT_EQ(launch(request), 2);
  EXPECT_EQ(err(), "the cause\nrank 1 ended with exit code 2\n");
}

TEST_F(LauncherTest, TakesAnExitCodeThatIsNoneOfOursAsABug) {
  EXPECT_EQ(launch(script("exit 41", 1)), 70);
  EXPECT_NE(err().find("rank 0 ended with exit code 41"), std::string::npos);
}

TEST_F(LauncherTest, NamesAKilledRankAndItsSignal) {
  EXPECT_EQ(launch(script("[ $RANK = 1 ] && kill -KILL $$; sleep 0.1; exit 6", 2)), 6);
  EXPECT_NE(err().find("rank 1 was killed by SIGKILL"), std::string::npos);
  EXPECT_EQ(reason(), "rank 1 was killed by SIGKILL");
}

TEST_F(LauncherTest, NamesAKilledRankAlsoIfItNoticesOneThatReportsItFirst) {
  auto request = script("[ $RANK = 1 ] || exit 6; sleep 0.1; kill -KILL $$", 2);
  request.kill_seconds = 10;
  EXPECT_EQ(launch(request), 6);
  EXPECT_EQ(reason(), "rank 1 was killed by SIGKILL");
}

TEST_F(LauncherTest, TakesARankThatEndsWithZeroForALostOne) {
  for (const std::string rank : {"0", "1"}) {
    EXPECT_EQ(launch(script("[ $RANK = " + rank + " ] && exit 0; exit 100", 2)), 6);
    EXPECT_EQ(reason().find("rank " + rank + " ended with exit code 0 before it had finished"), 0u) << reason();
  }
  EXPECT_EQ(launch(script("exit 0", 1)), 6) << "nobody else is there to miss it";
}

TEST_F(LauncherTest, EndsARankThatHangsAfterAnotherFailed) {
  EXPECT_EQ(launch(script("[ $RANK = 1 ] && { while [ ! -s hanging ]; do sleep 0.02; done; exit 3; }\n"
                          "echo $$ > hanging; exec sleep 100",
                          2)),
            3);
  EXPECT_LT(seconds_, 3);
  EXPECT_FALSE(alive("hanging"));
  EXPECT_NE(err().find("rank 0 is still running: sending SIGTERM"), std::string::npos);
}

TEST_F(LauncherTest, KillsARankThatIgnoresSigterm) {
  EXPECT_EQ(launch(script("[ $RANK = 1 ] && { while [ ! -s hanging ]; do sleep 0.02; done; exit 3; }\n"
                          "trap '' TERM; echo $$ > hanging; while :; do sleep 0.05; done",
                          2)),
            3);
  EXPECT_LT(seconds_, 3);
  EXPECT_FALSE(alive("hanging"));
  EXPECT_NE(err().find("rank 0 is still running: sending SIGKILL"), std::string::npos);
}

TEST_F(LauncherTest, KillsAStoppedRank) {
  EXPECT_EQ(launch(script("[ $RANK = 1 ] || { echo $$ > stopped; kill -STOP $$; }; sleep 0.1; exit 6", 2)), 6);
  EXPECT_LT(seconds_, 3);
  EXPECT_FALSE(alive("stopped"));
}

TEST_F(LauncherTest, NamesAStoppedRankAndWaitsForIt) {
  start(script("[ $RANK = 1 ] && { echo $$ > stopped; kill -STOP $$; }", 2));
  wait_until([&] { return err().find("rank 1 (process") != std::string::npos; });
  kill(std::stoi(read_all(folder_ / "stopped")), SIGCONT);
  EXPECT_EQ(finish(), 0);
  EXPECT_LT(seconds_, 10);
  EXPECT_EQ(count_of(err(), "is stopped, by a signal or a debugger"), 1u) << err();
}

TEST_F(LauncherTest, PassesASignalOnOnceAndWaitsForTheCheckpoint) {
  for (const auto& [signal, name] : {std::pair(SIGINT, "INT"), std::pair(SIGTERM, "TERM")}) {
    start(script("trap 'echo got >> got$RANK; sleep 0.8; exit 75' " + std::string(name) +
                     "; touch ready$RANK; while :; do sleep 0.02; done",
                 2));
    wait_for_file("ready0");
    wait_for_file("ready1");
    kill(launcher_, signal);
    EXPECT_EQ(finish(), 75);
    for (const char* rank : {"0", "1"}) {
      EXPECT_EQ(read_all(folder_ / (std::string("got") + rank)), "got\n");
      std::filesystem::remove(folder_ / (std::string("got") + rank));
      std::filesystem::remove(folder_ / (std::string("ready") + rank));
    }
  }
}

TEST_F(LauncherTest, ShieldsTheRanksFromASignalToItsWholeGroup) {
  auto request = script("trap 'echo got >> got; sleep 0.2; exit 75' INT; touch ready; while :; do sleep 0.02; done", 1);
  start(request);
  wait_for_file("ready");
  setpgid(launcher_, launcher_);
  kill(-launcher_, SIGINT);  // as a terminal does on Ctrl-C
  EXPECT_EQ(finish(), 75);
  EXPECT_EQ(read_all(folder_ / "got"), "got\n");
}

TEST_F(LauncherTest, KillsAtOnceOnTheSecondSignal) {
  start(
      script("trap 'touch saving$RANK; while :; do sleep 0.02; done' TERM; echo $$ > pid$RANK; "
             "while :; do sleep 0.02; done",
             2));
  wait_for_file("pid0");
  wait_for_file("pid1");
  std::this_thread::sleep_for(50ms);
  kill(launcher_, SIGTERM);
  wait_for_file("saving0");
  wait_for_file("saving1");
  kill(launcher_, SIGTERM);  // the same request
  std::this_thread::sleep_for(1100ms);
  EXPECT_TRUE(alive("pid0"));
  begin_ = std::chrono::steady_clock::now();
  kill(launcher_, SIGTERM);
  EXPECT_EQ(finish(), 75);
  EXPECT_LT(seconds_, 1);
  EXPECT_FALSE(alive("pid0"));
  EXPECT_FALSE(alive("pid1"));
}

TEST_F(LauncherTest, TakesADeathByThePassedSignalAsAStop) {
  start(script("touch ready; exec sleep 100", 1));
  wait_for_file("ready");
  std::this_thread::sleep_for(50ms);
  kill(launcher_, SIGTERM);
  EXPECT_EQ(finish(), 75);
}

TEST_F(LauncherTest, TakesADeathByAnyRequestAsAStopOnceOneHasCome) {
  start(script("echo $$ > pid0; exec sleep 100", 1));
  wait_for_file("pid0");
  std::this_thread::sleep_for(50ms);
  const pid_t rank = std::stoi(read_all(folder_ / "pid0"));
  kill(rank, SIGSTOP);
  kill(rank, SIGUSR1);  // takes effect before the SIGTERM that the launcher sends
  kill(launcher_, SIGUSR1);
  std::this_thread::sleep_for(200ms);
  kill(rank, SIGCONT);
  EXPECT_EQ(finish(), 75);
}

TEST_F(LauncherTest, LeavesNoRankBehindWhenItIsKilledItself) {
  start(script("echo $$ > pid$RANK; exec sleep 100", 2));
  wait_until([&] { return !read_all(folder_ / "pid0").empty() && !read_all(folder_ / "pid1").empty(); });
  EXPECT_TRUE(alive("pid0"));
  kill(launcher_, SIGKILL);
  finish();
  wait_until([&] { return !alive("pid0") && !alive("pid1"); });
}

TEST_F(LauncherTest, LeavesNothingBehindThatARankStarted) {
  EXPECT_EQ(launch(script("sleep 100 & echo $! > grandchild; exit 100", 1)), 0);
  wait_until([&] { return !alive("grandchild"); });
}

TEST_F(LauncherTest, GoesOnWhenNobodyReadsItsOutputAnyMore) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  launcher_ = fork();
  if (launcher_ == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    alarm(30);
    const auto result = launch_ranks(script("for i in 1 2 3; do echo line; sleep 0.05; done; touch finished", 1));
    _exit(int(result.status));
  }
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(finish(), 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "finished"));
}

TEST_F(LauncherTest, HearsSignalsWhileItsReaderDoesNotRead) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  launcher_ = fork();
  if (launcher_ == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    alarm(30);
    const auto result =
        launch_ranks(script("yes & trap \"touch stopped; kill $!; exit 75\" TERM; sleep 0.5; touch full; "
                            "while :; do sleep 0.02; done",
                            1));
    _exit(int(result.status));
  }
  close(ends[1]);
  wait_for_file("full");
  kill(launcher_, SIGTERM);
  wait_for_file("stopped");
  EXPECT_EQ(finish(), 75) << "nor does it then wait for the reader";
  close(ends[0]);
}

TEST_F(LauncherTest, GivesARankTheOrdinarySignalHandling) {
  signal(SIGINT, SIG_IGN);
  const int code = launch(script("kill -INT $$; sleep 1; exit 100", 1));
  signal(SIGINT, SIG_DFL);
  EXPECT_EQ(code, 6);
  EXPECT_NE(err().find("SIGINT"), std::string::npos);
}

TEST_F(LauncherTest, RefusesATakenPort) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  auto request = script("touch ran", 2);
  request.port = ntohs(address.sin_port);
  EXPECT_EQ(launch(request), 2);
  EXPECT_NE(read_all(folder_ / "error").find(":" + std::to_string(request.port) + " is in use"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "ran"));
  close(fd);
  EXPECT_EQ(launch(request), 0);
}

TEST_F(LauncherTest, KeepsItsPortForRank0) {
  start(script("echo $MASTER_PORT > port$RANK; touch started$RANK; while [ ! -e end ]; do sleep 0.02; done", 2));
  wait_for_file("started0");
  const int port = std::stoi(read_all(folder_ / "port0"));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_NE(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << "another program's";
  EXPECT_EQ(errno, EADDRINUSE);
  close(fd);
  EXPECT_EQ(listen_on_address("127.0.0.1", port).port(), port) << "as rank 0 does";
  std::ofstream(folder_ / "end");
  EXPECT_EQ(finish(), 0);
}

TEST_F(LauncherTest, PassesOnWhyARankCannotBeStarted) {
  auto request = script("", 2);
  request.start_rank = [](ChildRequest rank) {
    rank.program = "/absent";
    return ChildProcess(rank);
  };
  EXPECT_EQ(launch(request), 7);
  EXPECT_NE(read_all(folder_ / "error").find("absent"), std::string::npos);
}

TEST_F(LauncherTest, ReleasesWhatStartsRanksOnceTheyRun) {
  auto request = script("while [ ! -e released ]; do sleep 0.02; done", 2);
  launcher_ = fork();
  if (launcher_ == 0) {
    alarm(30);
    std::shared_ptr<void> owned(nullptr, [this](void*) { std::ofstream(folder_ / "released"); });
    request.start_rank = [start = request.start_rank, owned = std::move(owned)](const ChildRequest& rank) {
      return start(rank);
    };
    _exit(int(launch_ranks(std::move(request)).status));
  }
  EXPECT_EQ(finish(), 0);
}

}  // namespace
}  // namespace wmtp
