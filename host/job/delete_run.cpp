#include "job/delete_run.hpp"

#include <unistd.h>

#include "base/files.hpp"
#include "io/run_lock.hpp"
#include "log/maintenance.hpp"
#include "log/open_log.hpp"

namespace wmtp {

namespace fs = std::filesystem;

RunToDelete find_run_to_delete(const LogReader& log, int64_t run_id) {
  RunToDelete run{log.run(run_id), 0, read_run_key(log.database(), run_id)};
  if (run.status == "running" || RunLock::is_held(run.folder))
    throw Error(ExitStatus::usage, "run " + std::to_string(run_id) + " (" + run.name + ") is running; stop it first");
  run.bytes = bytes_below(run.folder);
  return run;
}

void delete_run(const fs::path& database, const RunToDelete& run) {
  const fs::path aside = run.folder.string() + ".deleted-" + std::to_string(getpid());
  std::error_code error;
  const bool has_folder = fs::exists(run.folder, error);
  if (has_folder) fs::rename(run.folder, aside, error);
  if (error) throw Error(ExitStatus::storage, run.folder.string() + ": " + error.message());
  try {
    delete_rows(database, run.id, run.key);
  } catch (...) {
    if (has_folder) fs::rename(aside, run.folder, error);
    throw;
  }
  if (has_folder) fs::remove_all(aside, error);
  if (error)
    throw Error(ExitStatus::storage,
                "the run was deleted, but some files remain: " + aside.string() + ": " + error.message());
}

}  // namespace wmtp
