#include "log/open_log.hpp"

#include <sqlite3.h>
#include <sys/statfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/log.hpp"
#include "base/text.hpp"
#include "log/migrations.hpp"

namespace wmtp {
namespace {

using namespace std::chrono_literals;

constexpr std::uintmax_t checked_size = 4 << 20;  // up to this size, checking all pages takes about 30 ms

void make_folder_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto folder = std::filesystem::absolute(path).parent_path();
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    throw Error(ExitStatus::storage, "run log " + path.string() + ": cannot create the folder " + folder.string() +
                                         ": " + (error ? error.message() : "it is a file") +
                                         "; name another database with --db");
  }
}

/// The error that kept SQLite from reading a page, which is no damage: "Page 30: unable to get the page. error code=7";
/// SQLITE_OK if there is none.
int read_error_in(const std::string& found) {
  constexpr std::string_view name = "error code=";
  const size_t at = found.find(name);
  if (at == found.npos) return SQLITE_OK;
  const int code = std::atoi(found.c_str() + at + name.size()) & 0xff;
  return code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? SQLITE_OK : code;
}

/// Damage found here ends the program with exit code 7; later it would only lose rows.
void check_pages(Database& database) {
  std::error_code error;
  if (std::filesystem::file_size(database.path(), error) > checked_size || error) return;
  const std::string found = last_line(database.text("PRAGMA quick_check(1)"));
  if (found == "ok") return;
  if (const int code = read_error_in(found); code != SQLITE_OK)
    throw SqliteError("run log " + database.path().string() + ": cannot be checked: " +
                          (code == SQLITE_NOMEM ? std::generic_category().message(ENOMEM)
                                                : std::string(sqlite3_errstr(code)) + "; check the disk") +
                          " (" + found + ")",
                      code);
  throw SqliteError("run log " + database.path().string() + ": is damaged: " + found +
                        "; move the file away (or restore a copy), or name another database with --db",
                    SQLITE_CORRUPT);
}

/// A write that accesses the file without changing it.
void probe(Database& database) {
  Transaction transaction(database);
  database.execute("PRAGMA user_version = " + std::to_string(database.integer("PRAGMA user_version")));
  transaction.commit();
}

/// The write-ahead log needs memory that all programs share, but of several hosts none do, and a probe on one does not
/// tell. Of FUSE and 9P it is not known what is behind them.
bool may_be_shared_by_hosts(const std::filesystem::path& path) {
  constexpr std::array<uint32_t, 13> kinds{
      0x6969,      // NFS
      0x517b,      // SMB
      0xff534d42,  // CIFS
      0xfe534d42,  // SMB 2
      0x0bd00bd0,  // Lustre
      0x19830326,  // BeeGFS
      0x00c36400,  // Ceph
      0x47504653,  // GPFS
      0x5346414f,  // AFS
      0x01161970,  // GFS 2
      0x7461636f,  // OCFS 2
      0x01021997,  // 9P
      0x65735546,  // FUSE
  };
  struct statfs system = {};
  return statfs(path.c_str(), &system) == 0 && std::ranges::find(kinds, uint32_t(system.f_type)) != kinds.end();
}

bool wal_works(Database& database) {
  if (may_be_shared_by_hosts(database.path())) return false;
  try {
    if (database.text("PRAGMA journal_mode = WAL") != "wal") return false;
    probe(database);
    return true;
  } catch (const SqliteError& error) {
    const bool may_be_wal = error.code() == SQLITE_IOERR || error.code() == SQLITE_CANTOPEN ||
                            error.code() == SQLITE_PROTOCOL || error.code() == SQLITE_READONLY;
    if (!may_be_wal) throw;
    return false;
  }
}

std::optional<Database> open_with_wal(const std::filesystem::path& path) {
  Database database(path, Database::Mode::create);
  database.set_busy_timeout(1s);
  if (!is_new_log(database)) check_pages(database);
  if (!wal_works(database)) return std::nullopt;
  database.execute("PRAGMA journal_size_limit = 16777216");
  return database;
}

Database open_with_rollback_journal(const std::filesystem::path& path) {
  Database database(path, Database::Mode::create);
  database.set_busy_timeout(1s);
  // Only an exclusive connection can read a file in WAL mode without the shared memory that just failed.
  database.execute("PRAGMA locking_mode = EXCLUSIVE");
  database.text("PRAGMA journal_mode = DELETE");
  database.execute("PRAGMA locking_mode = NORMAL");
  probe(database);
  return database;
}

Database open_once(const std::filesystem::path& path) {
  if (std::optional<Database> database = open_with_wal(path)) {
    migrate(*database);
    return std::move(*database);
  }
  Database database = open_with_rollback_journal(path);
  migrate(database);
  log_warning("run log " + path.string() + ": SQLite's write-ahead log does not work on this file system; using a " +
              "rollback journal, so readers and the writer block each other");
  return database;
}

}  // namespace

Database open_log_for_writing(const std::filesystem::path& path, std::chrono::milliseconds patience) {
  make_folder_of(path);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    try {
      Database database = open_once(path);
      set_synchronous_full(database);
      return database;
    } catch (const SqliteError& error) {
      // SQLite returns "busy" at once, despite the timeout, when two connections change the journal mode together.
      if (!error.busy() || std::chrono::steady_clock::now() >= deadline) throw;
    }
    std::this_thread::sleep_for(20ms);
  }
}

void set_synchronous_normal(Database& database) {
  const bool wal = database.text("PRAGMA journal_mode") == "wal";
  database.execute(wal ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL");
}

void set_synchronous_full(Database& database) { database.execute("PRAGMA synchronous = FULL"); }

}  // namespace wmtp
