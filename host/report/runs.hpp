// `runs list` and `runs show`: what the log knows, for people and as JSON.
#pragma once

#include <ostream>
#include <string>

#include "log/log_reader.hpp"
#include "report/table.hpp"

namespace wmtp {

/// Newest first. JSON and CSV carry the columns of v_runs by their names.
void print_runs_list(std::ostream& out, const LogReader& log, TableFormat format);
/// Configuration, plugins, first/last/best metrics, a curve, memory, checkpoints, events of one run. JSON is one
/// object. Error(usage) for CSV, which has no form for it, and for a run that is not in the log.
void print_run(std::ostream& out, const LogReader& log, int64_t run_id, TableFormat format);

}  // namespace wmtp
