// Opening a run log for writing, with patience and a proof that it can be written.
//
// 1. The folder is made. 2. What the file is gets read before anything in it is changed. 3. WAL is asked for and probed
// by a write, since on some file systems it is granted and the first write fails; then the file goes back to a rollback
// journal with a warning. 4. The schema is brought up to date.
// A lock held by somebody else is waited for up to the time given; every other failure is Error(storage) at once.
#pragma once

#include <chrono>

#include "core/runlog/database.hpp"

namespace wmtp {

constexpr std::chrono::seconds kPatience{15};

Database open_log_for_writing(const std::filesystem::path& path, std::chrono::milliseconds patience = kPatience);

/// synchronous for the rows of steps: a power cut may take the last ones, never the file.
void sync_loosely(Database& database);
/// synchronous for a run's start and end: committed means on the disk.
void sync_fully(Database& database);

/// `<the database's folder>/<id>-<name>`; characters of the name that a file name cannot hold become '-'.
std::filesystem::path run_folder_of(const std::filesystem::path& database, int64_t run_id, const std::string& name);

}  // namespace wmtp
