// `runs delete`: deletes a run's row and folder, both or neither.
#pragma once

#include <cstdint>
#include <filesystem>

#include "log/log_reader.hpp"

namespace wmtp {

struct RunToDelete : RunInfo {
  int64_t bytes = 0;  ///< size of its folder, which may be missing
  std::string key;    ///< as of read_run_key()
};

/// Error(usage) if the run is active: its folder is locked, or its heartbeat is recent.
RunToDelete find_run_to_delete(const LogReader& log, int64_t run_id);

/// Renames the folder, deletes the row, then deletes the folder. If the row cannot be deleted, renames the folder back.
/// Error(storage).
void delete_run(const std::filesystem::path& database, const RunToDelete& run);

}  // namespace wmtp
