#include "log/readable_log.hpp"

#include <sqlite3.h>

#include <stdexcept>

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t max_copied_bytes = uintmax_t{1} << 30;

Database opened(const fs::path& path, Database::Mode mode, std::chrono::milliseconds patience) {
  Database database(path, mode);
  database.set_busy_timeout(patience);
  database.integer("PRAGMA schema_version");  // the first access needs the shared memory
  return database;
}

ReadableLog opened_copy(const fs::path& path, const fs::path& wal, std::chrono::milliseconds patience) {
  try {
    if (fs::file_size(path) + fs::file_size(wal) > max_copied_bytes) throw std::length_error("larger than 1 GiB");
    auto folder = std::make_unique<ScratchFolder>();
    const fs::path copy = folder->path() / "wmtp.db";
    fs::copy_file(path, copy);
    fs::copy_file(wal, copy.string() + "-wal");
    return {std::move(folder), opened(copy, Database::Mode::read, patience)};
  } catch (const std::exception& failure) {
    throw SqliteError("run log " + path.string() + ": its newest rows are in " + wal.string() +
                          ", which can be read only in a folder that can be written, and a temporary copy failed: " +
                          failure.what() + "; copy both files together to another folder, and name the copy with --db",
                      SQLITE_CANTOPEN);
  }
}

}  // namespace

ReadableLog open_log_for_reading(const fs::path& path, std::chrono::milliseconds patience) {
  try {
    return {nullptr, opened(path, Database::Mode::read, patience)};
  } catch (const SqliteError& failure) {
    if (failure.code() != SQLITE_CANTOPEN && failure.code() != SQLITE_READONLY) throw;
    const fs::path wal = path.string() + "-wal";
    std::error_code absent;
    if (const uintmax_t bytes = fs::file_size(wal, absent); !absent && bytes > 0)
      return opened_copy(path, wal, patience);
    return {nullptr, opened(path, Database::Mode::immutable, patience)};
  }
}

}  // namespace wmtp
