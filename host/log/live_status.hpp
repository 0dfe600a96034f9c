// The status of a run that may still be active, for programs that follow it.
#pragma once

#include <string>

#include "log/log_reader.hpp"

namespace wmtp {

/// As in v_runs; but a run without a heartbeat, because its log is locked or the machine was suspended, is "running",
/// not "lost", while a process of this machine holds the lock of its folder.
std::string live_status(const LogReader& log, int64_t run_id);

}  // namespace wmtp
