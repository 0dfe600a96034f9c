// `runs watch`: follows a run's steps in the log, from another terminal or machine.
#pragma once

#include <chrono>
#include <functional>
#include <ostream>

#include "log/log_reader.hpp"

namespace wmtp {

struct WatchRequest {
  int64_t run_id = 0;
  bool json = false;  ///< one JSON object per step
  std::chrono::milliseconds interval{1000};
  std::function<bool()> stopped = [] { return false; };  ///< called at least ten times per second
};

/// Prints the newest step, each further step, and how the run ended. Returns the run's exit code, 6 if the run is lost,
/// 0 if watching was stopped.
int watch_run(std::ostream& out, const LogReader& log, const WatchRequest& request);

}  // namespace wmtp
