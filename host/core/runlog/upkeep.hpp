// Maintenance of a log: deletes a run, copies the log.
#pragma once

#include <cstdint>
#include <filesystem>

namespace wmtp {

/// Deletes the run's row and everything that belongs to it; runs resumed from it remain, without a parent.
/// Error(storage).
void delete_rows(const std::filesystem::path& database, int64_t run_id);

/// A consistent copy of a log that may be in use: one file without -wal and -shm, complete or absent. Error(usage) if
/// `copy` already exists, Error(storage) if it cannot be written.
void snapshot_log(const std::filesystem::path& database, const std::filesystem::path& copy);

}  // namespace wmtp
