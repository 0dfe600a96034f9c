// Runs as CSV and as JSON. What is written goes to `out` piece by piece, so that no run is too long.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/runlog/log_reader.hpp"

namespace wmtp {

using TextOutput = std::function<void(std::string_view)>;

/// Every number of the runs, one to a line (RFC 4180): run_id, run, step, name, value, kind, time_ns; run by run,
/// metric by metric, by step. `value` has all digits, and is nan, inf or -inf where it is not finite; `kind` says that
/// too, and is empty for a finite number.
void write_metrics_csv(const LogReader& log, const std::vector<int64_t>& runs, const TextOutput& out);

/// An array with an object for each run: its columns (status as v_runs says it), and under the name of every table its
/// rows. A number that is not finite is null, and its `kind` says which it is.
void write_runs_json(const LogReader& log, const std::vector<int64_t>& runs, const TextOutput& out);

}  // namespace wmtp
