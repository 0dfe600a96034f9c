// What `doctor` reports of the run log, tried on a log that is missing, sound or damaged.
#include "launch/machine_checks.hpp"

#include <algorithm>

#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

class MachineChecks : public LogTest {
 protected:
  MachineCheck of_log() const {
    const auto checks = check_machine({}, file_);
    const auto found =
        std::find_if(checks.begin(), checks.end(), [](const auto& one) { return one.what == "run log"; });
    return found == checks.end() ? MachineCheck() : *found;
  }
};

TEST_F(MachineChecks, AMissingLogIsNotCreated) {
  const MachineCheck check = of_log();
  EXPECT_EQ(check.state, MachineCheck::State::good);
  EXPECT_TRUE(holds(check.text, "does not exist yet")) << check.text;
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(MachineChecks, CountsTheRunsOfALog) {
  RunLog(file_, start()).end(ExitStatus::done);
  EXPECT_TRUE(holds(of_log().text, "1 run, 0 running, 0 lost")) << of_log().text;
}

TEST_F(MachineChecks, ADamagedLogIsBad) {
  std::ofstream(file_) << "no database, but long enough to be read as the header of one, and refused for that reason";
  const MachineCheck check = of_log();
  EXPECT_EQ(check.state, MachineCheck::State::bad);
  EXPECT_EQ(check.status, ExitStatus::storage) << check.text;
}

}  // namespace
}  // namespace wmtp
