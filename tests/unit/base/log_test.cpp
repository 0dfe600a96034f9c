// Messages go to stderr, without colors unless it is a terminal.
#include "base/log.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TEST(Log, WritesMessagesToStderrWithoutTimeAndColour) {
  configure_log({});
  testing::internal::CaptureStderr();
  log_info("step 1 {}");
  log_warning("slow");
  log_error("gone");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "step 1 {}\nwarning: slow\nerror: gone\n");
}

TEST(Log, OmitsInformationWhenQuiet) {
  configure_log({.quiet = true});
  testing::internal::CaptureStderr();
  log_info("step 1");
  log_warning("slow");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: slow\n");
  configure_log({});
}

TEST(Log, UsesNoColourOutsideATerminal) { EXPECT_FALSE(stderr_takes_color()); }

}  // namespace
}  // namespace wmtp
