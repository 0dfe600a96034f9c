// Handles requests to stop (process/stop_requests.hpp). The handler only sets a flag; all ranks of the job combine
// their flags in each step, so that all save and stop at the same step. A repeated request ends the process at once.
#pragma once

namespace wmtp {

void install_stop_handler();
bool stop_requested();

/// While it exists, a request ends the process at once, with exit code 75 and a line to stderr if `says` it: nothing
/// can be saved before all ranks have met, and they may never meet.
class ImmediateStopScope {
 public:
  explicit ImmediateStopScope(bool says);
  ~ImmediateStopScope();
  ImmediateStopScope(const ImmediateStopScope&) = delete;
};

}  // namespace wmtp
