// `runs delete`: a run's row and its folder, both or neither.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/runlog/log_reader.hpp"

namespace wmtp {

struct DeletableRun : LoggedRun {
  int64_t bytes = 0;  ///< of the files in its folder, which may be missing
};

/// Error(usage) when the run is running: its folder's lock is held, or its heartbeat is fresh.
DeletableRun deletable_run(const LogReader& log, int64_t run_id);

/// The folder is moved aside, the row taken out, then the folder removed; a failure before the last puts it back.
/// Error(storage).
void delete_run(const std::filesystem::path& database, const DeletableRun& run);

}  // namespace wmtp
