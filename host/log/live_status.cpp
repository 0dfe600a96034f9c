#include "log/live_status.hpp"

#include "io/run_lock.hpp"

namespace wmtp {

std::string live_status(const LogReader& log, int64_t run_id) {
  const RunInfo run = log.run(run_id);
  return run.status == "lost" && RunLock::is_held(run.folder) ? "running" : run.status;
}

}  // namespace wmtp
