#include "process/child_process.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace wmtp {
namespace {

TEST(OwnProgram, IsTheFileThatRuns) { EXPECT_EQ(own_program().filename(), "unit_dist"); }

TEST(OwnProgram, WhereProcIsMissingIsAFaultOfTheEnvironment) {
  try {
    own_program("/proc/self/none");
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::storage);
    EXPECT_NE(std::string(error.what()).find("cannot find this program by /proc/self/none"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("mount /proc"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace wmtp
