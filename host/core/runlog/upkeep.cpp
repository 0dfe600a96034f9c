#include "core/runlog/upkeep.hpp"

#include "core/runlog/database.hpp"
#include "core/runlog/open_log.hpp"
#include "io/durable_file.hpp"

namespace wmtp {

namespace fs = std::filesystem;

void delete_rows(const fs::path& path, int64_t run_id) {
  Database database = open_log_for_writing(path);
  Transaction transaction(database);
  Statement(database, "DELETE FROM runs WHERE id = ?1").run(run_id);
  transaction.commit();
}

void snapshot_log(const fs::path& path, const fs::path& copy) {
  std::error_code ignored;
  if (fs::exists(copy, ignored))
    throw Error(ExitStatus::usage, copy.string() + " already exists; choose another file for the copy");
  if (!fs::is_regular_file(path, ignored)) throw Error(ExitStatus::usage, "there is no run log " + path.string());
  FileDraft draft(copy);
  {
    Database database(path, Database::Mode::read);
    database.set_busy_timeout(kPatience);
    Statement(database, "VACUUM INTO ?1").run(draft.path().string());
  }
  draft.publish();
}

}  // namespace wmtp
