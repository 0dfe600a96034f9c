// `runs delete` and `runs rename`: change a run's rows and its folder, both or neither. Error(usage) if the run is
// active: its folder is locked, or its heartbeat is recent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "log/log_reader.hpp"

namespace wmtp {

struct RunToDelete : RunInfo {
  int64_t bytes = 0;  ///< size of its folder, which may be missing
  std::string key;    ///< as of read_run_key()
};

RunToDelete find_run_to_delete(const LogReader& log, int64_t run_id);

/// Error(storage), also if some files remain after the rows are deleted.
void delete_run(const std::filesystem::path& database, const RunToDelete& run);

/// Error(usage) if the name is invalid. Error(storage).
void rename_run(const std::filesystem::path& database, int64_t run_id, const std::string& name);

}  // namespace wmtp
