// What stands on the screen when a run has ended.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "core/runlog/log_reader.hpp"

namespace wmtp {

/// Losses and their fall, selected against unselected tokens where the pipeline selects, speed, peak memory of each
/// rank, what the tensors of the largest one were at the peak of each phase, where the checkpoint lies, and what to
/// type next. Lines without data are left out.
void run_summary(std::ostream& out, const LogReader& log, int64_t run_id);

/// "1,217 tokens/s, 46% of bare matrix multiplication", from the columns tokens_per_second (a number) and mfu of
/// v_runs. A share above 1 is not shown as one: it says that the machine was busier whenever the multiplication was
/// measured.
std::string speed_text(const nlohmann::json& tokens_per_second, const nlohmann::json& mfu);

}  // namespace wmtp
