// The progress shown of long work: the completed part and the time left.
#include "base/work_progress.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace wmtp {
namespace {

using Unit = WorkProgress::Unit;
using namespace std::chrono_literals;

TEST(WorkProgress, ShowsTheAmountAndEstimatesTheRestFromTheSpeed) {
  EXPECT_EQ(detail::progress_text("encoding", 1 << 20, 4 << 20, Unit::bytes, 20),
            "encoding: 1.0 MiB of 4.0 MiB, 1m 00s left");
  EXPECT_EQ(detail::progress_text("judging", 1500, 3000, Unit::pieces, 7), "judging: 1,500 of 3,000, 7.0s left");
}

TEST(WorkProgress, EstimatesNothingAtTheStartAndAtTheEnd) {
  EXPECT_EQ(detail::progress_text("judging", 0, 3, Unit::pieces, 5), "judging: 0 of 3");
  EXPECT_EQ(detail::progress_text("judging", 3, 3, Unit::pieces, 5), "judging: 3 of 3");
}

TEST(WorkProgress, ShowsTheTimeOfWorkOfUnknownSize) {
  EXPECT_EQ(detail::progress_text("training a tokenizer", 0, 0, Unit::pieces, 61), "training a tokenizer: 1m 01s");
}

void work_for(std::chrono::milliseconds time) {
  WorkProgress progress("counting", 4);
  progress.advance(1);
  std::this_thread::sleep_for(time);
  progress.advance(3);
}

std::string shown_in(std::chrono::milliseconds time) {
  testing::internal::CaptureStderr();
  work_for(time);
  return testing::internal::GetCapturedStderr();
}

TEST(WorkProgress, ShowsNothingForShortWorkAndEndsImmediately) {
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(shown_in(10ms), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 1s);
}

TEST(WorkProgress, ShowsLongWorkWithItsPrefix) {
  set_progress_prefix("rho1");
  EXPECT_EQ(shown_in(4000ms).find("rho1: counting: 1 of 4, "), 0u);
  set_progress_prefix("");
}

TEST(WorkProgress, ShowsNothingWhenHidden) {
  EXPECT_EXIT(
      {
        hide_progress();
        const int shown = memfd_create("stderr", 0);
        dup2(shown, STDERR_FILENO);
        work_for(2500ms);
        _exit(lseek(shown, 0, SEEK_END) == 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace wmtp
