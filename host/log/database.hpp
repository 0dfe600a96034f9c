// Database, Statement, Transaction: RAII and exceptions for the SQLite C API.
//
// Every failure is a SqliteError (an Error(storage)) with file, operation, SQLite's message and code, and advice. A
// Transaction that is not committed is rolled back. A connection is used by one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace wmtp {

class SqliteError : public Error {
 public:
  SqliteError(const std::string& message, int code, std::string cause = "")
      : Error(ExitStatus::storage, message), code_(code), cause_(std::move(cause)) {}
  /// SQLite's primary result code.
  int code() const { return code_ & 0xff; }
  /// SQLite's message alone.
  const std::string& cause() const { return cause_; }
  /// Whether another connection holds a lock, so that waiting may help.
  bool busy() const;

 private:
  int code_;
  std::string cause_;
};

using SqlValue = std::variant<int64_t, std::string>;

class Database {
 public:
  enum class Mode {
    create,     ///< read and write, created if absent
    write,      ///< read and write, must exist
    read,       ///< read only
    immutable,  ///< read only; for a file in a read-only folder that nobody writes
    memory,     ///< empty, in memory; the path is for messages
  };
  /// How messages name the kind of file, and the option that selects another file.
  struct Kind {
    const char *what, *option;
  };
  static constexpr Kind run_log{"run log", "--db"};
  Database(const std::filesystem::path& path, Mode mode, Kind kind = run_log);
  ~Database();
  Database(Database&& other) noexcept
      : path_(std::move(other.path_)), kind_(other.kind_), db_(std::exchange(other.db_, nullptr)) {}
  Database& operator=(Database&&) = delete;

  /// Runs every statement of `sql`.
  void execute(const std::string& sql);
  /// First column of the first row; 0 or "" without rows.
  int64_t integer(const std::string& sql);
  std::string text(const std::string& sql);

  void set_busy_timeout(std::chrono::milliseconds time);
  int64_t last_insert_id() const;
  int64_t changes() const;
  /// Whether the open file was deleted or replaced, while SQLite keeps writing to the old one.
  bool has_moved() const;
  sqlite3* handle() const { return db_; }
  const std::filesystem::path& path() const { return path_; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::filesystem::path path_;
  Kind kind_;
  sqlite3* db_ = nullptr;
};

/// A prepared statement; must not outlive its database.
class Statement {
 public:
  Statement(Database& database, const std::string& sql);
  ~Statement();
  Statement(const Statement&) = delete;

  void bind(int index, int64_t value);
  void bind(int index, int value) { bind(index, int64_t(value)); }
  void bind(int index, double value);
  void bind(int index, const std::string& value);
  void bind(int index, const char* value) { bind(index, std::string(value)); }
  void bind(int index, std::nullopt_t);
  template <class T>
  void bind(int index, const std::optional<T>& value) {
    if (value) {
      bind(index, *value);
    } else {
      bind(index, std::nullopt);
    }
  }

  /// Binds ?1, ?2, …
  void bind_all(const std::vector<SqlValue>& values);

  /// True if there is a row.
  bool step();
  void reset();
  /// Binds all parameters in order and runs the statement to the end.
  template <class... Values>
  void run(const Values&... values) {
    int index = 0;
    (bind(++index, values), ...);
    while (step()) {
    }
    reset();
  }

  int64_t integer(int column) const;
  double real(int column) const;
  bool null(int column) const;
  std::string text(int column) const;
  sqlite3_stmt* handle() const { return statement_; }

 private:
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

/// BEGIN IMMEDIATE: a writer waits for the lock here, not at its first statement.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace wmtp
