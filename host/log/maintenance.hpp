// Maintenance of a log: deletes a run, copies the log; what a user adds to a run. All throw Error(storage) if the log
// cannot be written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace wmtp {

class Database;

/// What identifies the run in whichever file its row is; "" if the run's log had schema version 7 or less. For callers
/// that change the log later: it may be replaced meanwhile, by one that has another run of this number.
std::string read_run_key(const std::filesystem::path& database, int64_t run_id);
/// Error(storage) if the log's run of this number has another key than `key`.
void check_run_key(Database& database, int64_t run_id, const std::string& key);

/// A row of the table `runs`, with the key that read_run_key() found.
struct KeyedRun {
  int64_t id = 0;
  std::string key{};
};
/// Deletes these rows and everything that belongs to them, all or none; runs resumed from them remain, without a
/// parent. `before_commit`: called when only the commit is left; what it throws leaves the rows. Error(storage), also
/// as check_run_key.
void delete_rows(const std::filesystem::path& database, const std::vector<KeyedRun>& runs,
                 const std::function<void()>& before_commit = {});

/// Replaces the run's note; "" removes it.
void set_note(const std::filesystem::path& database, int64_t run_id, const std::string& note);

/// Adds tags to a run and removes others.
void change_tags(const std::filesystem::path& database, int64_t run_id, const std::vector<std::string>& added,
                 const std::vector<std::string>& removed);

/// Hides the run from lists, or shows it again.
void set_archived(const std::filesystem::path& database, int64_t run_id, bool archived);

/// Changes a run's name, and the name of its folder in the paths of its checkpoints. `before_commit`: as above.
void rename_rows(const std::filesystem::path& database, int64_t run_id, const std::string& name,
                 const std::string& old_folder, const std::string& folder,
                 const std::function<void()>& before_commit = {});

/// A consistent copy of a log that may be in use: one file without -wal and -shm, complete or absent. Error(usage) if
/// `copy` already exists, Error(storage) if it cannot be written.
void snapshot_log(const std::filesystem::path& database, const std::filesystem::path& copy);

}  // namespace wmtp
