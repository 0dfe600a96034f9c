// `runs list` and `runs show`: what the log knows, for people and as JSON.
#pragma once

#include <ostream>
#include <string>

#include "log/log_reader.hpp"
#include "report/table.hpp"

namespace wmtp {

void print_runs_list(std::ostream& out, const LogReader& log, TableFormat format);
/// Configuration, plugins, first/last/best metrics, memory, checkpoints, events of one run.
void print_run(std::ostream& out, const LogReader& log, int64_t run_id, TableFormat format);

}  // namespace wmtp
