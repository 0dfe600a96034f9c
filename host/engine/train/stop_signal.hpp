// SIGINT and SIGTERM: the handler only sets a flag; the ranks agree on it in the step's own exchange, so that all save
// and leave at the same step. A second signal ends the process at once.
#pragma once

namespace wmtp {

void watch_signals();
bool stop_requested();

}  // namespace wmtp
