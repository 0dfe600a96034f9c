// Handles SIGINT and SIGTERM. The handler only sets a flag; ranks combine their flags in each step's exchange, so that
// all save and stop at the same step. A repeated request (process/stop_requests.hpp) ends the process at once.
#pragma once

namespace wmtp {

void watch_signals();
bool stop_requested();

}  // namespace wmtp
