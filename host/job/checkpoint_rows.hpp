// The rows of a run's checkpoints in the log, made to agree with its folder: a rank that was killed after it had
// published, deleted or set aside a checkpoint could not log it.
#pragma once

#include <filesystem>

#include "log/maintenance.hpp"

namespace wmtp {

/// A checkpoint without a row is kept; a kept one without a folder is damaged if it was set aside, else deleted. Does
/// nothing if the log is gone or has no such run; one that cannot be changed within a second is a warning. [the run is
/// not active]
void correct_checkpoint_rows(const std::filesystem::path& database, const KeyedRun& run,
                             const std::filesystem::path& run_folder);

}  // namespace wmtp
