// `runs delete` and `runs rename`: change a run's rows and its folder, both or neither. Error(usage) if the run is
// active: its folder is locked, or its heartbeat is recent.
//
// A run that was resumed is one run: it is deleted with all its segments, whichever of them is named.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "log/log_reader.hpp"

namespace wmtp {

struct SegmentToDelete : RunInfo {
  int64_t bytes = 0;  ///< size of its folder, which may be missing
  std::string key;    ///< as of read_run_key()
};

struct RunToDelete {
  std::vector<SegmentToDelete> segments;  ///< oldest first; the last one is the run as `runs list` shows it
  std::vector<int64_t> kept;              ///< its segments that a run outside of the list continues, too
};

/// The runs of which `run_ids` are segments, each once. Error(usage) for a segment that several runs continue, unless
/// all of them are to be deleted.
std::vector<RunToDelete> find_runs_to_delete(const LogReader& log, const std::vector<int64_t>& run_ids);

/// "run 4 (rho1) with its segments 2 and 3: their rows and 1.2 MiB in runs/2-rho1, runs/3-rho1 and runs/4-rho1".
std::string what_is_deleted(const RunToDelete& run);

/// All segments or none. Error(storage), also if some files remain after the rows are deleted.
void delete_run(const std::filesystem::path& database, const RunToDelete& run);

/// Error(usage) if the name is invalid. Error(storage).
void rename_run(const std::filesystem::path& database, int64_t run_id, const std::string& name);

}  // namespace wmtp
