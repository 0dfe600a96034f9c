// The summary printed when a run ends.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "core/runlog/log_reader.hpp"

namespace wmtp {

/// Losses and their change, losses of selected and unselected tokens if the pipeline selects, speed, peak memory per
/// rank, tensors of the largest rank at the peak of each phase, path of the checkpoint, next commands. Lines without
/// data are omitted.
void run_summary(std::ostream& out, const LogReader& log, int64_t run_id);

/// The column mfu_of of v_runs if the device's peak is unknown.
inline constexpr const char* multiplication = "plain matrix multiplication";

/// "1,217 tokens/s, 46% of plain matrix multiplication", from the columns tokens_per_second (a number), mfu and mfu_of
/// of v_runs. A share of multiplication above 1 is omitted: it means that the machine was busier while the
/// multiplication was measured.
std::string speed_text(const nlohmann::json& tokens_per_second, const nlohmann::json& mfu,
                       const std::string& mfu_of = multiplication);

}  // namespace wmtp
