#include "core/runlog/log_reader.hpp"

#include <sqlite3.h>

#include <algorithm>

#include "base/counted.hpp"
#include "base/text.hpp"
#include "core/runlog/database.hpp"
#include "core/runlog/migrations.hpp"
#include "core/runlog/open_log.hpp"
#include "core/runlog/query_guard.hpp"

namespace wmtp {
namespace {

using namespace std::chrono_literals;

constexpr size_t most_held = size_t{256} << 20;  // of one result

Database empty_log(const std::filesystem::path& path) {
  Database database(path, Database::Mode::memory);
  limit_values(database);
  migrate(database);
  return database;
}

Database open_for_reading(const std::filesystem::path& path, Database::Mode mode, std::chrono::milliseconds limit) {
  Database database(path, mode);
  limit_values(database);
  database.set_busy_timeout(10s);
  {
    const TimeLimit time_limit(database, std::max<std::chrono::milliseconds>(limit, 10s));
    // A file that a writer has just created is empty.
    if (is_new_log(database)) return empty_log(path);
    shadow_old_schema(database);
  }
  return database;
}

Database open(const std::filesystem::path& path, std::chrono::milliseconds limit) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return empty_log(path);
  try {
    return open_for_reading(path, Database::Mode::read, limit);
  } catch (const SqliteError& failure) {
    // In a read-only folder, a log in WAL mode can be read only without a -wal file.
    const bool no_shared_memory = failure.code() == SQLITE_CANTOPEN || failure.code() == SQLITE_READONLY;
    if (!no_shared_memory || std::filesystem::exists(path.string() + "-wal", error)) throw;
    return open_for_reading(path, Database::Mode::immutable, limit);
  }
}

nlohmann::json cell(sqlite3_stmt* row, int column) {
  switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
      return static_cast<int64_t>(sqlite3_column_int64(row, column));
    case SQLITE_FLOAT:
      return sqlite3_column_double(row, column);
    case SQLITE_TEXT: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
      return std::string(text, static_cast<size_t>(sqlite3_column_bytes(row, column)));
    }
    case SQLITE_BLOB: {
      const auto* bytes = static_cast<const unsigned char*>(sqlite3_column_blob(row, column));
      std::string hex = "x'";
      for (int i = 0; i < sqlite3_column_bytes(row, column); ++i) {
        hex += "0123456789abcdef"[bytes[i] >> 4];
        hex += "0123456789abcdef"[bytes[i] & 15];
      }
      return hex + "'";
    }
    default:
      return nullptr;
  }
}

size_t bytes_of(const Row& row) {
  size_t bytes = sizeof(Row) + row.size() * sizeof(nlohmann::json);
  for (const nlohmann::json& cell : row)
    if (const auto* text = cell.get_ptr<const std::string*>()) bytes += text->size();
  return bytes;
}

size_t bytes_of_texts(sqlite3_stmt* row) {
  size_t bytes = 0;
  for (int column = 0; column < sqlite3_column_count(row); ++column)
    if (sqlite3_column_type(row, column) >= SQLITE_TEXT) bytes += size_t(sqlite3_column_bytes(row, column));
  return bytes;
}

[[noreturn]] void refuse_size(const std::filesystem::path& path) {
  throw SqliteError("run log " + path.string() + ": one result would take more than " +
                        human_bytes(int64_t(most_held)) + " of memory; ask for less, or name another file with --db",
                    SQLITE_TOOBIG);
}

std::vector<std::string> unique_names(sqlite3_stmt* statement) {
  std::vector<std::string> names;
  for (int column = 0; column < sqlite3_column_count(statement); ++column) {
    const char* given = sqlite3_column_name(statement, column);
    const std::string plain = given ? given : "column";
    std::string name = plain;
    for (int n = 1; std::find(names.begin(), names.end(), name) != names.end(); ++n) {
      name = plain + ":" + std::to_string(n);
    }
    names.push_back(name);
  }
  return names;
}

bool only_space_and_comments(Database& database, const char* rest) {
  // SQLite compiles blanks and comments to no statement.
  while (*rest != '\0') {
    sqlite3_stmt* statement = nullptr;
    const char* next = rest;
    const int code = sqlite3_prepare_v2(database.handle(), rest, -1, &statement, &next);
    sqlite3_finalize(statement);
    if (code != SQLITE_OK || statement != nullptr) return false;
    if (next == rest) break;
    rest = next;
  }
  return true;
}

struct Closer {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using OwnedStatement = std::unique_ptr<sqlite3_stmt, Closer>;

[[noreturn]] void refuse(const std::string& what) { throw Error(ExitStatus::usage, "sql: " + what); }

/// The context of a statement.
struct Query {
  Database& database;
  const QueryGuard& guard;
  std::chrono::milliseconds limit;
  bool by_user;
};

/// Reports SQLite's error: Error(usage) for a user's statement, Error(storage) for the file.
[[noreturn]] void fail(const Query& query) {
  Database& database = query.database;
  const int code = sqlite3_errcode(database.handle());
  if (!query.by_user) database.fail("cannot be read");
  if (code == SQLITE_INTERRUPT) {
    refuse("stopped after " + human_seconds(static_cast<double>(query.limit.count()) / 1000) +
           "; ask for less, for example one run or one metric name");
  }
  if (!query.guard.refused().empty()) {
    refuse(query.guard.refused() + ", but queries may only read; write one SELECT (or WITH … SELECT)");
  }
  if (code == SQLITE_TOOBIG) refuse("a value is longer than 32 MiB, the limit; select a part with substr()");
  if (code == SQLITE_ERROR || code == SQLITE_RANGE || code == SQLITE_MISMATCH) {
    refuse(std::string(sqlite3_errmsg(database.handle())) +
           "; tables and views: SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')");
  }
  database.fail("cannot be read");
}

OwnedStatement prepare_one(const Query& query, const std::string& sql) {
  if (sql.find('\0') != std::string::npos) refuse("the statement contains a NUL byte; remove it");
  sqlite3_stmt* raw = nullptr;
  const char* rest = nullptr;
  if (sqlite3_prepare_v2(query.database.handle(), sql.c_str(), -1, &raw, &rest) != SQLITE_OK) fail(query);
  OwnedStatement statement(raw);
  if (!statement) refuse("there is no statement; write one SELECT");
  if (!only_space_and_comments(query.database, rest))
    refuse("there is more than one statement; run them one at a time");
  if (!sqlite3_stmt_readonly(raw)) refuse("the statement would write, but queries may only read");
  return statement;
}

void bind_all(const Query& query, sqlite3_stmt* statement, const std::vector<std::string>& arguments) {
  const int wanted = sqlite3_bind_parameter_count(statement);
  if (wanted != static_cast<int>(arguments.size())) {
    refuse("the statement has " + std::to_string(wanted) + " parameters, " + std::to_string(arguments.size()) +
           " values");
  }
  for (int i = 0; i < wanted; ++i) {
    const std::string& value = arguments[static_cast<size_t>(i)];
    if (sqlite3_bind_text64(statement, i + 1, value.data(), value.size(), SQLITE_STATIC, SQLITE_UTF8) != 0) fail(query);
  }
}

}  // namespace

struct LogReader::Impl {
  std::filesystem::path path;
  std::chrono::milliseconds limit;
  mutable Database database;

  /// Calls `take` with each row of a statement of this program, within the limits of time and size.
  void each(Statement& statement, const std::function<void(const Statement&)>& take) const {
    const TimeLimit time_limit(database, limit);
    for (size_t held = 0; statement.step(); take(statement))
      if ((held += bytes_of_texts(statement.handle())) > most_held) refuse_size(path);
  }

  std::vector<std::string> each_row(const std::string& sql, const std::vector<std::string>& arguments, bool by_user,
                                    const std::function<bool(Row&)>& visit) const {
    const TimeLimit time_limit(database, limit);
    const QueryGuard guard(database);
    const Query query{database, guard, limit, by_user};
    const OwnedStatement statement = prepare_one(query, sql);
    bind_all(query, statement.get(), arguments);
    std::vector<std::string> columns = unique_names(statement.get());
    Row row;
    int code = 0;
    while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) {
      row.clear();
      for (int column = 0; column < sqlite3_column_count(statement.get()); ++column) {
        row.push_back(cell(statement.get(), column));
      }
      if (!visit(row)) return columns;
    }
    if (code != SQLITE_DONE) fail(query);
    return columns;
  }

  Table table(const std::string& sql, const std::vector<std::string>& arguments, bool by_user, int64_t max_rows) const {
    Table table;
    size_t held = 0;
    table.columns = each_row(sql, arguments, by_user, [&](Row& row) {
      table.capped = static_cast<int64_t>(table.rows.size()) >= max_rows;
      if (table.capped) return false;
      if ((held += bytes_of(row)) > most_held) {
        if (by_user) refuse("the result is larger than " + human_bytes(int64_t(most_held)) + "; ask for fewer rows");
        refuse_size(path);
      }
      table.rows.push_back(std::move(row));
      return true;
    });
    return table;
  }

  std::vector<LoggedRun> runs(const std::string& condition, const std::string& argument) const {
    Statement find(database, "SELECT id, name, status FROM v_runs WHERE " + condition + " ORDER BY id DESC");
    find.bind(1, argument);
    std::vector<LoggedRun> found;
    each(find, [&](const Statement& row) {
      const int64_t id = row.integer(0);
      found.push_back({id, row.text(1), row.text(2), run_folder_of(path, id, row.text(1))});
    });
    return found;
  }

  std::optional<LoggedRun> newest(const std::string& condition, const std::string& argument) const {
    std::vector<LoggedRun> found = runs(condition, argument);
    return found.empty() ? std::nullopt : std::optional(found.front());
  }
};

LogReader::LogReader(const std::filesystem::path& path, std::chrono::milliseconds limit)
    : impl_(new Impl{path, limit, open(path, limit)}) {
  // A virtual table is declared at its first use, with statements that the guard would refuse as writing.
  Statement(impl_->database, "SELECT 1 FROM json_each('[]'), json_tree('[]')");
}

LogReader::~LogReader() = default;

const std::filesystem::path& LogReader::database() const { return impl_->path; }

bool LogReader::exists() const {
  std::error_code unknown;
  return std::filesystem::exists(impl_->path, unknown) || unknown;
}

std::vector<LoggedRun> LogReader::finished_with_hash(const std::string& config_hash) const {
  return impl_->runs("config_hash = ?1 AND status = 'finished'", config_hash);
}

std::optional<LoggedRun> LogReader::newest_finished(const std::string& name) const {
  return impl_->newest("name = ?1 AND status = 'finished'", name);
}

std::vector<LoggedRun> LogReader::unfinished_with_hash(const std::string& config_hash) const {
  return impl_->runs(
      "config_hash = ?1 AND status <> 'finished' AND id NOT IN ("
      "WITH RECURSIVE resumed (id) AS ("
      "SELECT parent_run FROM v_runs WHERE status = 'finished' AND parent_run IS NOT NULL "
      "UNION SELECT r.parent_run FROM runs AS r JOIN resumed AS g ON r.id = g.id WHERE r.parent_run IS NOT NULL) "
      "SELECT id FROM resumed)",
      config_hash);
}

LoggedRun LogReader::run(int64_t run_id) const {
  return impl_->newest("id = CAST(?1 AS INTEGER)", std::to_string(run_id)).value();
}

int64_t LogReader::resolve_run(const std::string& run) const {
  const bool number = !run.empty() && run.size() < 19 && std::all_of(run.begin(), run.end(), ::isdigit);
  int64_t id = 0;
  const auto take_id = [&id](const Statement& row) { id = row.integer(0); };
  Statement by_id(impl_->database, "SELECT id FROM runs WHERE id = ?1");
  by_id.bind(1, number ? static_cast<int64_t>(std::stoll(run)) : int64_t{-1});
  impl_->each(by_id, take_id);
  if (id > 0) return id;
  Statement by_name(impl_->database, "SELECT max(id) FROM runs WHERE name = ?1");
  by_name.bind(1, run);
  impl_->each(by_name, take_id);
  if (id > 0) return id;

  if (!exists())
    throw Error(ExitStatus::usage,
                "no run log at " + std::filesystem::absolute(impl_->path).string() +
                    "; change to the folder where the runs were started, or name their log with --db "
                    "FILE or WMTP_DB");
  std::vector<std::string> names;
  Statement all(impl_->database, "SELECT DISTINCT name FROM runs");
  impl_->each(all, [&](const Statement& row) { names.push_back(row.text(0)); });
  const std::string nearest = nearest_name(run, names);
  throw Error(ExitStatus::usage, "no run \"" + run + "\" in " + impl_->path.string() + " (" +
                                     counted(int64_t(names.size()), "name") + ")" +
                                     (nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?") +
                                     (nearest.empty() ? "; " : " ") + "`wmtp-host runs list` shows them");
}

std::vector<std::string> LogReader::each_row(const std::string& sql, const std::vector<std::string>& arguments,
                                             const std::function<bool(Row&)>& visit) const {
  return impl_->each_row(sql, arguments, false, visit);
}

Table LogReader::query(const std::string& sql, const std::vector<std::string>& arguments, int64_t max_rows) const {
  return impl_->table(sql, arguments, false, max_rows);
}

Table LogReader::ask(const std::string& sql, int64_t max_rows) const { return impl_->table(sql, {}, true, max_rows); }

void LogReader::each_row(const std::string& sql, const std::vector<int64_t>& numbers,
                         const std::function<void(const Statement&)>& take) const {
  Statement statement(impl_->database, sql);
  for (size_t i = 0; i < numbers.size(); ++i) statement.bind(static_cast<int>(i) + 1, numbers[i]);
  impl_->each(statement, take);
}

}  // namespace wmtp
