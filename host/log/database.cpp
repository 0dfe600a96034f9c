#include "log/database.hpp"

#include <sqlite3.h>

#include "base/files.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

std::string advice(int code, const char* option) {
  const std::string other = std::string("name another file with ") + option;
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "; it is locked by another program: end that program's transaction, or " + other;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return "; make the file and its folder writable, or " + other;
    case SQLITE_FULL:
    case SQLITE_IOERR:
      return "; free space on that disk, or " + other;
    case SQLITE_INTERRUPT:
      return "; it took too long: the log is too large for this, or a view in it is unbounded; " + other;
    case SQLITE_TOOBIG:
    case SQLITE_ERROR:
      return "; the file is damaged or was not written by wmtp-host; " + other;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return "; move the file away (or restore a copy), or " + other;
    default:
      return "";
  }
}

std::string uri_of(const std::filesystem::path& path) {
  std::string uri = "file:";
  for (char c : std::filesystem::absolute(path).string())
    uri += c == '%' || c == '?' || c == '#' ? printed("%%%02x", unsigned(c)) : std::string(1, c);
  return uri + "?immutable=1";
}

}  // namespace

bool SqliteError::busy() const { return code() == SQLITE_BUSY || code() == SQLITE_LOCKED; }

Database::Database(const std::filesystem::path& path, Mode mode, Kind kind) : path_(path), kind_(kind) {
  if (is_there(path)) check_is_file(path, ExitStatus::storage);
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  std::string name = path.string();
  switch (mode) {
    case Mode::create:
      flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
      break;
    case Mode::write:
      flags |= SQLITE_OPEN_READWRITE;
      break;
    case Mode::read:
      flags |= SQLITE_OPEN_READONLY;
      break;
    case Mode::immutable:
      flags |= SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
      name = uri_of(path);
      break;
    case Mode::memory:
      flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
      name = ":memory:";
      break;
  }
  const int code = sqlite3_open_v2(name.c_str(), &db_, flags, nullptr);
  if (code != SQLITE_OK) {
    const std::string text = db_ ? sqlite3_errmsg(db_) : sqlite3_errstr(code);
    sqlite3_close_v2(std::exchange(db_, nullptr));
    throw SqliteError(kind_.what + (" " + path_.string()) + ": cannot be opened: " + text + " (SQLite code " +
                          std::to_string(code) + ")" + advice(code, kind_.option),
                      code);
  }
  // The schema of an untrusted file must not execute code.
  sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_FKEY, 1, nullptr);
}

Database::~Database() { sqlite3_close_v2(db_); }

void Database::fail(const std::string& what) const {
  const int code = sqlite3_extended_errcode(db_);
  throw SqliteError(kind_.what + (" " + path_.string()) + ": " + what + ": " + sqlite3_errmsg(db_) + " (SQLite code " +
                        std::to_string(code) + ")" + advice(code, kind_.option),
                    code, sqlite3_errmsg(db_));
}

void Database::execute(const std::string& sql) {
  if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    fail("cannot run \"" + first_line(sql).substr(0, 60) + "\"");
}

int64_t Database::integer(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

std::string Database::text(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.text(0) : "";
}

void Database::set_busy_timeout(std::chrono::milliseconds time) { sqlite3_busy_timeout(db_, int(time.count())); }

int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(db_); }

int64_t Database::changes() const { return sqlite3_changes64(db_); }

bool Database::has_moved() const {
  int moved = 0;
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  return moved != 0;
}

Statement::Statement(Database& database, const std::string& sql) : database_(database) {
  if (sqlite3_prepare_v3(database.handle(), sql.data(), int(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement_,
                         nullptr) != SQLITE_OK) {
    database.fail("cannot read \"" + sql.substr(0, 60) + "\"");
  }
}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::bind(int index, int64_t value) {
  if (sqlite3_bind_int64(statement_, index, value) != SQLITE_OK) database_.fail("cannot bind a number");
}

void Statement::bind(int index, double value) {
  if (sqlite3_bind_double(statement_, index, value) != SQLITE_OK) database_.fail("cannot bind a number");
}

void Statement::bind(int index, const std::string& value) {
  if (sqlite3_bind_text64(statement_, index, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8) != SQLITE_OK)
    database_.fail("cannot bind a text");
}

void Statement::bind(int index, std::nullopt_t) {
  if (sqlite3_bind_null(statement_, index) != SQLITE_OK) database_.fail("cannot bind NULL");
}

void Statement::bind_all(const std::vector<SqlValue>& values) {
  int index = 0;
  for (const SqlValue& value : values) std::visit([&](const auto& one) { bind(++index, one); }, value);
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  try {
    database_.fail(sqlite3_stmt_readonly(statement_) ? "cannot be read" : "cannot be written");
  } catch (...) {
    sqlite3_reset(statement_);
    throw;
  }
}

void Statement::reset() { sqlite3_reset(statement_); }

int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }

double Statement::real(int column) const { return sqlite3_column_double(statement_, column); }

bool Statement::null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

std::string Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return text ? std::string(text, size_t(sqlite3_column_bytes(statement_, column))) : "";
}

Transaction::Transaction(Database& database) : database_(database) {
  if (sqlite3_exec(database.handle(), "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) != SQLITE_OK)
    database.fail("cannot be locked for writing");
}

Transaction::~Transaction() {
  // Some failures (a full disk) roll back by themselves; the second ROLLBACK then fails, which is harmless.
  if (open_) sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  if (sqlite3_exec(database_.handle(), "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK)
    database_.fail("cannot be committed");
  open_ = false;
}

}  // namespace wmtp
