#include "log/live_status.hpp"

#include <optional>

#include "io/run_lock.hpp"
#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

using LiveStatus = LogTest;

TEST_F(LiveStatus, IsRunningWithoutAHeartbeatWhileTheFolderIsLocked) {
  RunLog log(file_, start());
  std::optional<RunLock> lock(std::in_place, log.run_folder());
  EXPECT_EQ(live_status(LogReader(file_), 1), "running");
  execute("UPDATE runs SET heartbeat_at = '2020-01-01T00:00:00Z'");
  EXPECT_EQ(text("SELECT status FROM v_runs"), "lost");
  EXPECT_EQ(live_status(LogReader(file_), 1), "running");
  lock.reset();
  EXPECT_EQ(live_status(LogReader(file_), 1), "lost");
  log.end(ExitStatus::done);
  EXPECT_EQ(live_status(LogReader(file_), 1), "finished");
}

}  // namespace
}  // namespace wmtp
