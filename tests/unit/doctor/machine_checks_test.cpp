// What `doctor` reports about a damaged run log.
#include "doctor/machine_checks.hpp"

#include <algorithm>

#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

using MachineChecks = LogTest;

TEST_F(MachineChecks, ADamagedLogIsBad) {
  std::ofstream(file_) << "no database, but long enough to be read as the header of one, and refused for that reason";
  const auto checks = check_machine({}, file_);
  const auto log = std::find_if(checks.begin(), checks.end(), [](const auto& one) { return one.what == "run log"; });
  ASSERT_NE(log, checks.end());
  EXPECT_EQ(log->state, MachineCheck::State::bad);
  EXPECT_EQ(log->status, ExitStatus::storage) << log->text;
}

}  // namespace
}  // namespace wmtp
