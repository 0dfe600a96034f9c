// What a request to stop does while no ranks run, so that nobody else takes it: it ends this process with one line,
// which says what is left, and exit code 75. While ranks run, the launcher takes it (rank_launcher.hpp).
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

/// Ranks have run, and may have saved something.
void note_ranks_have_run();

}  // namespace wmtp
