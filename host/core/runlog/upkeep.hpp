// Maintenance of a log: deleting a run, and copying the log.
#pragma once

#include <cstdint>
#include <filesystem>

namespace wmtp {

/// Deletes the run's row and everything that belongs to it; runs resumed from it stay, without a parent.
/// Error(storage).
void delete_rows(const std::filesystem::path& database, int64_t run_id);

/// A consistent copy of a log that may be in use: one file without -wal and -shm, complete or absent. Error(usage) when
/// `copy` already exists, Error(storage) when it cannot be written.
void snapshot_log(const std::filesystem::path& database, const std::filesystem::path& copy);

}  // namespace wmtp
