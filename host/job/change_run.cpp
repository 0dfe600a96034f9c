#include "job/change_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/files.hpp"
#include "base/text.hpp"
#include "io/run_lock.hpp"
#include "log/maintenance.hpp"
#include "log/open_log.hpp"

namespace wmtp {

namespace fs = std::filesystem;

namespace {

constexpr size_t max_name_length = 64;  // as `name` in an experiment

void check_name(const std::string& name) {
  const auto is_good = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; };
  if (!name.empty() && name.size() <= max_name_length && std::isalnum(uint8_t(name[0])) &&
      std::all_of(name.begin(), name.end(), is_good))
    return;
  throw Error(ExitStatus::usage,
              "found the name " + printable(name) +
                  ", wanted at most 64 letters, digits, '.', '_' and '-', the first a letter or digit");
}

RunInfo find_ended_run(const LogReader& log, int64_t run_id) {
  const RunInfo run = log.run(run_id);
  if (run.status == "running" || RunLock::is_held(run.folder))
    throw Error(ExitStatus::usage, "run " + std::to_string(run_id) + " (" + run.name + ") is running; stop it first");
  return run;
}

/// Renames the folder, if it exists, before it changes the rows, and back if they cannot be changed.
void change_run(const fs::path& folder, const fs::path& renamed, const std::function<void()>& change_rows) {
  std::error_code error;
  const bool moves = fs::exists(folder, error) && folder != renamed;
  if (moves) fs::rename(folder, renamed, error);
  if (error) throw Error(ExitStatus::storage, folder.string() + ": " + error.message());
  try {
    change_rows();
  } catch (...) {
    if (moves) fs::rename(renamed, folder, error);
    throw;
  }
}

}  // namespace

RunToDelete find_run_to_delete(const LogReader& log, int64_t run_id) {
  const RunInfo run = find_ended_run(log, run_id);
  return {run, bytes_below(run.folder), read_run_key(log.database(), run_id)};
}

void delete_run(const fs::path& database, const RunToDelete& run) {
  const fs::path aside = run.folder.string() + ".deleted-" + std::to_string(getpid());
  change_run(run.folder, aside, [&] { delete_rows(database, run.id, run.key); });
  std::error_code error;
  fs::remove_all(aside, error);
  if (error)
    throw Error(ExitStatus::storage,
                "the run was deleted, but some files remain: " + aside.string() + ": " + error.message());
}

void rename_run(const fs::path& database, int64_t run_id, const std::string& name) {
  check_name(name);
  const RunInfo run = find_ended_run(LogReader(database), run_id);
  const fs::path folder = run_folder_path(database, run_id, name);
  std::error_code ignored;
  if (folder != run.folder && fs::exists(run.folder, ignored) && fs::exists(folder, ignored))
    throw Error(ExitStatus::storage, folder.string() + " already exists; move it away, or choose another name");
  change_run(run.folder, folder,
             [&] { rename_rows(database, run_id, name, run.folder.filename().string(), folder.filename().string()); });
}

}  // namespace wmtp
