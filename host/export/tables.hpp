// Exports runs as CSV and JSON. Output goes to `out` in pieces, so that the length of a run is unlimited.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "log/log_reader.hpp"

namespace wmtp {

using TextOutput = std::function<void(std::string_view)>;

/// Every metric value of the runs, one per line (RFC 4180): run_id, run, step, name, value, kind, time_ns, segment;
/// by run, metric and step, over all segments of a run: the last column is the run that logged the value. `value` has
/// full precision, or is nan, inf or -inf; then `kind` repeats it. `kind` is empty for a finite number.
void write_metrics_csv(const LogReader& log, const std::vector<int64_t>& runs, const TextOutput& out);

/// One run as a table: step, timestamp (ISO-8601 UTC, of the step's first value), then a column for each metric; a row
/// for each step with a value, an empty cell where a metric has none. Trackio imports it.
void write_wide_csv(const LogReader& log, int64_t run, const TextOutput& out);

/// An array with one object per run: its columns (status as in v_runs), and the rows of every table under its name. A
/// number that is not finite is null with its `kind`.
void write_runs_json(const LogReader& log, const std::vector<int64_t>& runs, const TextOutput& out);

}  // namespace wmtp
