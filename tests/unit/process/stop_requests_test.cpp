#include "process/stop_requests.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace wmtp {
namespace {

using Kind = StopRequests::Kind;
using namespace std::chrono_literals;

const StopRequests::Clock::time_point begin{};
const ReceivedSignal by_parent{SIGTERM, SI_USER, getppid()}, by_another{SIGTERM, SI_USER, getpid()},
    by_ctrl_c{SIGINT, SI_KERNEL, 0}, repeated{SIGTERM, SI_QUEUE, getppid()};

TEST(StopRequests, CountASignalThatArrivesSeveralTimesOnce) {
  for (const auto& [first, second] : {std::pair(by_another, by_parent),
                                      {by_parent, by_another},
                                      {by_another, by_another},
                                      {by_parent, by_parent},
                                      {by_ctrl_c, by_parent},
                                      {by_another, by_ctrl_c}}) {
    StopRequests requests;
    EXPECT_EQ(requests.take(first, begin), Kind::first);
    EXPECT_EQ(requests.take(second, begin + 1ms), Kind::same);
    EXPECT_EQ(requests.take(second, begin + 900ms), second.code == SI_KERNEL ? Kind::again : Kind::same);
  }
}

TEST(StopRequests, CountASignalOfASecondLaterAsASecondRequest) {
  for (const ReceivedSignal& second : {by_another, by_ctrl_c}) {
    StopRequests requests;
    requests.take(by_another, begin);
    EXPECT_EQ(requests.take(second, begin + 1s), Kind::again);
  }
}

TEST(StopRequests, ExpectTheParentToForwardTheFirstOneLate) {
  StopRequests requests;
  requests.take(by_another, begin);
  EXPECT_EQ(requests.take(by_parent, begin + 5s), Kind::same);
  EXPECT_EQ(requests.take(by_parent, begin + 6s), Kind::again);
  StopRequests later;
  later.take(by_another, begin);
  EXPECT_EQ(later.take(by_parent, begin + 20s), Kind::again);
}

TEST(StopRequests, CountCtrlCPressedTwiceAndAForwardedRepetitionAtOnce) {
  StopRequests at_terminal, forwarded;
  at_terminal.take(by_ctrl_c, begin);
  EXPECT_EQ(at_terminal.take(by_ctrl_c, begin + 100ms), Kind::again);
  EXPECT_EQ(forwarded.take(repeated, begin), Kind::first);
  EXPECT_EQ(forwarded.take(repeated, begin + 1ms), Kind::again);
}

TEST(StopRequests, CountAClosedTerminalOnce) {
  StopRequests requests;
  const ReceivedSignal hangup{SIGHUP, SI_KERNEL, 0};
  EXPECT_EQ(requests.take(hangup, begin), Kind::first);
  EXPECT_EQ(requests.take(hangup, begin + 100ms), Kind::same);
}

TEST(StopRequests, CountTheLimitOfComputingTimeOnceThoughTheKernelRepeatsIt) {
  StopRequests requests;
  const ReceivedSignal limit{SIGXCPU, SI_KERNEL, 0}, by_batch_system{SIGXCPU, SI_USER, getpid()};
  EXPECT_EQ(requests.take(limit, begin), Kind::first);
  EXPECT_EQ(requests.take(limit, begin + 1s), Kind::same);
  EXPECT_EQ(requests.take(limit, begin + 60s), Kind::same);
  EXPECT_EQ(requests.take(by_batch_system, begin + 61s), Kind::again);
}

TEST(StopRequests, CountATimerOnceThoughItGoesOn) {
  for (const int number : {SIGALRM, SIGVTALRM}) {
    StopRequests requests;
    const ReceivedSignal timer{number, SI_KERNEL, 0}, by_batch_system{number, SI_USER, getpid()};
    EXPECT_EQ(requests.take(timer, begin), Kind::first);
    EXPECT_EQ(requests.take(timer, begin + 60s), Kind::same);
    EXPECT_EQ(requests.take(by_batch_system, begin + 61s), Kind::again);
    StopRequests at_terminal;
    at_terminal.take(timer, begin);
    EXPECT_EQ(at_terminal.take(by_ctrl_c, begin + 100ms), Kind::same) << "no key was pressed before";
  }
}

TEST(StopRequests, AreAllSignalsThatWarnOfAnEndUnlessTheyAreIgnored) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM, SIGVTALRM}) {
    const sigset_t taken = handled_stop_signals();
    EXPECT_EQ(sigismember(&taken, signal), 1) << signal;
    const auto before = std::signal(signal, SIG_IGN);
    const sigset_t left = handled_stop_signals();
    EXPECT_EQ(sigismember(&left, signal), signal == SIGINT || signal == SIGTERM) << signal;
    std::signal(signal, before);
  }
}

}  // namespace
}  // namespace wmtp
