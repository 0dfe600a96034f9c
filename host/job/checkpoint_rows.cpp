#include "job/checkpoint_rows.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "checkpoint/manifest.hpp"
#include "log/database.hpp"
#include "log/log_reader.hpp"
#include "log/migrations.hpp"
#include "log/open_log.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

struct CheckpointRow {
  std::string path, state;
  int64_t step = 0, bytes = 0;
};

bool is_set_aside(const fs::path& run_folder, const std::string& name) {
  return std::ranges::any_of(paths_in(run_folder),
                             [&](const fs::path& path) { return path.filename().string().starts_with(name + ".bad"); });
}

/// The rows that have to be written. A row's path may be relative to the folder of the command that started the run, so
/// checkpoints are told apart by their names.
std::vector<CheckpointRow> corrections(const LogReader& log, int64_t run_id, const fs::path& run_folder) {
  std::map<std::string, fs::path> without_row;
  for (const fs::path& folder : list_checkpoints(run_folder)) without_row[folder.filename().string()] = folder;
  std::vector<CheckpointRow> rows;
  log.each_row("SELECT path, step FROM checkpoints WHERE run_id = ?1 AND state = 'kept'", {run_id},
               [&](const Statement& row) {
                 const std::string name = fs::path(row.text(0)).filename().string();
                 if (without_row.erase(name) > 0) return;
                 const char* const state = is_set_aside(run_folder, name) ? "damaged" : "deleted";
                 rows.push_back({row.text(0), state, row.integer(1)});
               });
  for (const auto& [name, folder] : without_row)
    rows.push_back({folder.string(), "kept", parse_checkpoint_step(name), bytes_below(folder)});
  return rows;
}

bool has_run(const LogReader& log, const KeyedRun& run) {
  const char* const found =
      "SELECT 1 FROM runs WHERE id = ?1 AND (?2 = '' OR EXISTS "
      "(SELECT 1 FROM run_keys WHERE run_id = ?1 AND key = ?2))";
  return !log.query(found, {run.id, run.key}, 1).rows.empty();
}

}  // namespace

void correct_checkpoint_rows(const fs::path& database, const KeyedRun& run, const fs::path& run_folder) try {
  const LogReader reader(database);
  if (!reader.exists() || !is_there(run_folder) || !has_run(reader, run)) return;
  const std::vector<CheckpointRow> rows = corrections(reader, run.id, run_folder);
  if (rows.empty()) return;
  using namespace std::chrono;
  const int64_t now = duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
  Database log(database, Database::Mode::write);
  log.set_busy_timeout(std::chrono::seconds(1));  // a launcher that is to stop has no time for more
  if (is_new_log(log)) return;
  migrate(log);  // an older program may have replaced the file
  Transaction transaction(log);
  check_run_key(log, run.id, run.key);
  for (const CheckpointRow& row : rows)
    Statement(log,
              "INSERT OR REPLACE INTO checkpoints (run_id, step, path, bytes, state, time_ns) "
              "VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
        .run(run.id, row.step, row.path, row.bytes, row.state, now);
  transaction.commit();
} catch (const Error& error) {
  log_warning("the checkpoints of run " + std::to_string(run.id) +
              " could not be corrected in the log: " + error.what());
}

}  // namespace wmtp
