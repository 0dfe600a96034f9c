// What a request to stop does while no ranks run, so that nobody else takes it: it ends this process with one line,
// which says what is left, and exit code 75. While ranks run, the launcher takes it (rank_launcher.hpp). Between their
// end and what this process then records, says and calls for it, the first one waits.
#pragma once

#include <csignal>

#include "process/stop_requests.hpp"

namespace wmtp {

/// Handles handled_stop_signals() while this exists.
class LauncherStopHandler {
 public:
  LauncherStopHandler();
  ~LauncherStopHandler();
  LauncherStopHandler(const LauncherStopHandler&) = delete;

 private:
  struct sigaction before_[stop_signals.size()];
};

/// Ranks start, and may save something. To be called where requests to stop are blocked, until the ranks have ended.
void note_ranks_start();
/// Requests take effect again. Returns whether one has waited: then nothing more must start.
[[nodiscard]] bool note_ranks_recorded();

}  // namespace wmtp
