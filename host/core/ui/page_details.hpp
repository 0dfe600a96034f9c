// What stands behind a run: one function for each question, from the log to JSON. See page_data.hpp.
#pragma once

#include <vector>

#include "core/runlog/log_reader.hpp"
#include "core/ui/page_data.hpp"

namespace wmtp {

/// A finite number by nine significant digits, which is what fp32 holds; null stays null; else "nan", "inf", "-inf".
PageJson number_json(double value);

PageJson params_json(const LogReader& log, const std::vector<int64_t>& runs);
PageJson memory_json(const LogReader& log, int64_t run);
/// Newest last, at most 2,000 of each run, those with a rowid above `after`.
PageJson events_json(const LogReader& log, const std::vector<int64_t>& runs, int64_t after);
PageJson sampled_json(const LogReader& log, int64_t run);
PageJson tokens_json(const LogReader& log, int64_t run, int64_t step, int64_t sequence);

}  // namespace wmtp
