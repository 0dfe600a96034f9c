// How the configurations of the log's runs differ, and which runs measure the same.
#pragma once

#include <string>

#include "log/log_reader.hpp"

namespace wmtp {

/// A JSON object. `keys`: the keys whose values differ between any of the log's `runs`, with the value of each run; and
/// "sweep", the name of the experiment, which members of a sweep share. `quantities`: the metrics that do not measure
/// the same in all runs, with a number for each run, equal where they do. `why_no_difference`: the sentence for others.
std::string configs_text(const LogReader& log, size_t runs);

}  // namespace wmtp
