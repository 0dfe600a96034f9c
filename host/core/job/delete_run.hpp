// `runs delete`: deletes a run's row and its folder, both or neither.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/runlog/log_reader.hpp"

namespace wmtp {

struct DeletableRun : LoggedRun {
  int64_t bytes = 0;  ///< in its folder, which may be missing
};

/// Error(usage) when the run is running: its folder is locked, or its heartbeat is recent.
DeletableRun deletable_run(const LogReader& log, int64_t run_id);

/// Renames the folder, deletes the row, then deletes the folder; renames it back when the row cannot be deleted.
/// Error(storage).
void delete_run(const std::filesystem::path& database, const DeletableRun& run);

}  // namespace wmtp
