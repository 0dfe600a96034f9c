#include "job/rename_run.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "io/run_lock.hpp"
#include "log/log_reader.hpp"
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

}  // namespace

void rename_run(const fs::path& database, int64_t run_id, const std::string& name) {
  check_name(name);
  const RunInfo run = LogReader(database).run(run_id);
  if (run.status == "running" || RunLock::is_held(run.folder))
    throw Error(ExitStatus::usage, "run " + std::to_string(run_id) + " (" + run.name + ") is running; stop it first");
  const fs::path folder = run_folder_path(database, run_id, name);
  std::error_code error;
  const bool moves = fs::exists(run.folder, error) && folder != run.folder;
  if (moves && fs::exists(folder, error))
    throw Error(ExitStatus::storage, folder.string() + " already exists; move it away, or choose another name");
  if (moves) fs::rename(run.folder, folder, error);
  if (error) throw Error(ExitStatus::storage, run.folder.string() + ": " + error.message());
  try {
    rename_rows(database, run_id, name, run.folder.filename().string(), folder.filename().string());
  } catch (...) {
    if (moves) fs::rename(folder, run.folder, error);
    throw;
  }
}

}  // namespace wmtp
