// Opens a run log for writing: waits for locks, and tests that writes succeed.
//
// 1. The folder is created. 2. The kind of the file is checked before anything in it is changed. 3. WAL is enabled and
// tested by a write, because some file systems accept it and then fail the first write; in that case the file uses a
// rollback journal, with a warning. 4. The schema is migrated. Waits for locks up to the given time; any other failure
// is Error(storage) at once.
#pragma once

#include <chrono>

#include "log/database.hpp"

namespace wmtp {

constexpr std::chrono::seconds log_patience{15};

/// The connection uses synchronous = FULL.
Database open_log_for_writing(const std::filesystem::path& path, std::chrono::milliseconds patience = log_patience);

/// For the rows of steps: a power failure may lose the last ones, but does not damage the file.
void set_synchronous_normal(Database& database);
/// For a run's start and end, and a flush: a commit, and those before it, are on disk.
void set_synchronous_full(Database& database);

}  // namespace wmtp
