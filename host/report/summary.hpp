// What stands on the screen when a run has ended.
#pragma once

#include <cstdint>
#include <ostream>

#include "log/log_reader.hpp"

namespace wmtp {

/// Losses and their fall, selected against unselected tokens where the pipeline selects, speed, peak memory of each
/// rank, what the tensors of the largest one were at the peak of each phase, where the checkpoint lies, and what to
/// type next. Lines without data are left out.
void run_summary(std::ostream& out, const LogReader& log, int64_t run_id);

}  // namespace wmtp
