// Opens a run log for writing: waits for locks, and tests that it can be written.
//
// 1. The folder is created. 2. The kind of the file is checked before anything in it is changed. 3. WAL is enabled and
// tested by a write, since on some file systems it is accepted and the first write fails; then the file uses a rollback
// journal, with a warning. 4. The schema is migrated.
// A lock is waited for up to the given time; every other failure is Error(storage) at once.
#pragma once

#include <chrono>

#include "core/runlog/database.hpp"

namespace wmtp {

constexpr std::chrono::seconds kPatience{15};

/// The connection syncs fully.
Database open_log_for_writing(const std::filesystem::path& path, std::chrono::milliseconds patience = kPatience);

/// For the rows of steps: a power failure may lose the last ones, but not damage the file.
void sync_loosely(Database& database);
/// For a run's start and end: committed means on disk.
void sync_fully(Database& database);

/// `<the database's folder>/<id>-<name>`; characters of the name that a file name cannot hold become '-'.
std::filesystem::path run_folder_of(const std::filesystem::path& database, int64_t run_id, const std::string& name);

}  // namespace wmtp
