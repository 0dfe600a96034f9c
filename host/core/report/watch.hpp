// `runs watch`: the steps of a run as they come into the log, from another terminal or machine.
#pragma once

#include <chrono>
#include <functional>
#include <ostream>

#include "core/runlog/log_reader.hpp"

namespace wmtp {

struct WatchRequest {
  int64_t run_id = 0;
  bool json = false;  ///< a JSON object for each step, for programs
  std::chrono::milliseconds interval{1000};
  std::function<bool()> stopped = [] { return false; };  ///< asked at least ten times a second
};

/// Prints the newest step that is there, then each further one, and at the end how the run ended. Returns its exit
/// code; 6 where it is lost; 0 where watching was stopped.
int watch_run(std::ostream& out, const LogReader& log, const WatchRequest& request);

}  // namespace wmtp
