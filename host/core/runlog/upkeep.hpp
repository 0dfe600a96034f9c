// What a user does to a log beside running: taking a run out of it, and copying it whole.
#pragma once

#include <cstdint>
#include <filesystem>

namespace wmtp {

/// Takes out the run's row and all that belongs to it; runs that went on from it stay, without a parent.
/// Error(storage).
void delete_rows(const std::filesystem::path& database, int64_t run_id);

/// A copy as of one moment, one file without -wal and -shm, while others may be writing to the log: whole or not there.
/// Error(usage) when `copy` is there already, Error(storage) when it cannot be written.
void snapshot_log(const std::filesystem::path& database, const std::filesystem::path& copy);

}  // namespace wmtp
