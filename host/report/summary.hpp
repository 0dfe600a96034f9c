// The summary printed when a run ends.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "log/log_reader.hpp"
#include "report/table.hpp"

namespace wmtp {

/// Six lines over all segments of the run: result (the change of the validation loss, else of the training loss),
/// speed, time by phase with the slowest rank, peak memory per rank, path of the checkpoint, next command. Lines
/// without data are omitted.
void run_summary(std::ostream& out, const LogReader& log, int64_t run_id);

/// "validation loss 8.3373 -> 6.4450, fell by 1.8924" over all segments, else of the training loss; "" without a loss.
std::string result_text(const LogReader& log, int64_t run_id);

/// "8.3373 -> 6.4450, fell by 1.8924".
std::string loss_change_text(double begin, double end);

/// The peak of each phase on the rank with the highest peak, largest first: "MiB" (the phase), then a column for each
/// category with tensors. `rank` is set if there are rows.
Table peaks_by_phase(const LogReader& log, int64_t run_id, int64_t& rank);

/// The column mfu_of of v_runs if the device's peak is unknown.
inline constexpr const char* multiplication = "plain matrix multiplication";

/// "1,217 tokens/s, 46% of plain matrix multiplication", from the columns tokens_per_second (a number), mfu and mfu_of
/// of v_runs. A share of multiplication above 1 is omitted: it means that the machine was busier while the
/// multiplication was measured.
std::string speed_text(const Json& tokens_per_second, const Json& mfu, const std::string& mfu_of = multiplication);

}  // namespace wmtp
