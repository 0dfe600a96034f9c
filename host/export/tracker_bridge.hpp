// Sends runs to Weights & Biases or Trackio through their own Python packages, in a Python process that is fed from the
// log (programs/tracker_bridge.py). A run that is training is followed to its end.
//
// A run and the runs that it resumed are one run of the tracker, found again by a key that is derived from the log's
// path and the first of them. A step is sent when the log has a later one or the run has ended, because its validation
// is logged after its loss. If this process ends early, another call sends what is missing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "log/log_reader.hpp"

namespace wmtp {

/// `package` is wandb or trackio, imported by the user's Python (process/python_program.hpp).
/// Reports one line per run. Error(usage) if Python or the package is missing, or the package refuses.
void send_to_tracker(const LogReader& log, const std::vector<int64_t>& runs, const std::string& package,
                     const std::function<void(const std::string&)>& report_line);

}  // namespace wmtp
