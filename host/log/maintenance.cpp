#include "log/maintenance.hpp"

#include "io/durable_file.hpp"
#include "log/database.hpp"
#include "log/log_reader.hpp"
#include "log/open_log.hpp"
#include "log/readable_log.hpp"

namespace wmtp {

namespace fs = std::filesystem;

std::string read_run_key(const fs::path& path, int64_t run_id) {
  return LogReader(path)
      .query("SELECT coalesce(max(key), '') FROM run_keys WHERE run_id = ?1", {run_id})
      .rows.at(0)
      .at(0);
}

void check_run_key(Database& database, int64_t run_id, const std::string& key) {
  Statement find(database, "SELECT key FROM run_keys WHERE run_id = ?1");
  find.bind(1, run_id);
  const std::string found = find.step() ? find.text(0) : "";
  if (key.empty() || found == key) return;
  throw Error(ExitStatus::storage, "run log " + database.path().string() +
                                       " was replaced meanwhile: found another run " + std::to_string(run_id) +
                                       "; nothing was changed");
}

void delete_rows(const fs::path& path, const std::vector<KeyedRun>& runs, const std::function<void()>& before_commit) {
  Database database = open_log_for_writing(path);
  Transaction transaction(database);
  for (const KeyedRun& run : runs) {
    check_run_key(database, run.id, run.key);
    Statement(database, "DELETE FROM runs WHERE id = ?1").run(run.id);
  }
  if (before_commit) before_commit();
  transaction.commit();
}

void set_note(const fs::path& path, int64_t run_id, const std::string& note) {
  Database database = open_log_for_writing(path);
  if (note.empty())
    Statement(database, "DELETE FROM run_notes WHERE run_id = ?1").run(run_id);
  else
    Statement(database, "INSERT OR REPLACE INTO run_notes (run_id, note) VALUES (?1, ?2)").run(run_id, note);
}

void change_tags(const fs::path& path, int64_t run_id, const std::vector<std::string>& added,
                 const std::vector<std::string>& removed) {
  Database database = open_log_for_writing(path);
  Transaction transaction(database);
  for (const std::string& tag : removed)
    Statement(database, "DELETE FROM run_tags WHERE run_id = ?1 AND tag = ?2").run(run_id, tag);
  for (const std::string& tag : added)
    Statement(database, "INSERT OR IGNORE INTO run_tags (run_id, tag) VALUES (?1, ?2)").run(run_id, tag);
  transaction.commit();
}

void set_archived(const fs::path& path, int64_t run_id, bool archived) {
  Database database = open_log_for_writing(path);
  Statement(database, archived ? "INSERT OR IGNORE INTO archived_runs (run_id) VALUES (?1)"
                               : "DELETE FROM archived_runs WHERE run_id = ?1")
      .run(run_id);
}

void rename_rows(const fs::path& path, int64_t run_id, const std::string& name, const std::string& old_folder,
                 const std::string& folder, const std::function<void()>& before_commit) {
  Database database = open_log_for_writing(path);
  Transaction transaction(database);
  Statement(database, "UPDATE runs SET name = ?2 WHERE id = ?1").run(run_id, name);
  // A path is absolute, or relative to the folder of the command that started the run.
  Statement(database,
            "UPDATE checkpoints SET path = substr(replace('/' || path, '/' || ?2 || '/', '/' || ?3 || '/'), 2) "
            "WHERE run_id = ?1")
      .run(run_id, old_folder, folder);
  if (before_commit) before_commit();
  transaction.commit();
}

void snapshot_log(const fs::path& path, const fs::path& copy) {
  std::error_code ignored;
  if (fs::exists(copy, ignored))
    throw Error(ExitStatus::usage, copy.string() + " already exists; choose another file for the copy");
  if (!fs::is_regular_file(path, ignored)) throw Error(ExitStatus::usage, "there is no run log " + path.string());
  FileDraft draft(copy);
  {
    ReadableLog log = open_log_for_reading(path, log_patience);
    Statement(log.database, "VACUUM INTO ?1").run(draft.path().string());
  }
  draft.publish();
}

}  // namespace wmtp
