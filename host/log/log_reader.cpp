#include "log/log_reader.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <memory>

#include "base/text.hpp"
#include "io/run_lock.hpp"
#include "log/log_option.hpp"
#include "log/migrations.hpp"
#include "log/query_guard.hpp"
#include "log/run_folders.hpp"

namespace wmtp {
namespace {

using namespace std::chrono_literals;

Database empty_log(const std::filesystem::path& path) {
  Database database(path, Database::Mode::memory);
  limit_values(database);
  migrate(database);
  return database;
}

ReadableLog open(const std::filesystem::path& path, std::chrono::milliseconds limit) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return {nullptr, empty_log(path)};
  ReadableLog log = open_log_for_reading(path, 10s);
  limit_values(log.database);
  {
    const TimeLimit time_limit(log.database, std::max<std::chrono::milliseconds>(limit, 10s));
    // A file just created by a writer is empty.
    if (is_new_log(log.database)) return {nullptr, empty_log(path)};
    shadow_old_schema(log.database);
  }
  return log;
}

Json cell(const Statement& statement, int column) {
  sqlite3_stmt* row = statement.handle();
  switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
      return statement.integer(column);
    case SQLITE_FLOAT:
      return statement.real(column);
    case SQLITE_TEXT:
      return statement.text(column);
    case SQLITE_BLOB: {
      const auto* bytes = static_cast<const unsigned char*>(sqlite3_column_blob(row, column));
      return "x'" + to_hex({bytes, size_t(sqlite3_column_bytes(row, column))}) + "'";
    }
    default:
      return nullptr;
  }
}

size_t text_bytes(const Statement& statement) {
  sqlite3_stmt* row = statement.handle();
  size_t bytes = 0;
  for (int column = 0; column < sqlite3_column_count(row); ++column)
    if (sqlite3_column_type(row, column) >= SQLITE_TEXT) bytes += size_t(sqlite3_column_bytes(row, column));
  return bytes;
}

[[noreturn]] void refuse_size(const std::filesystem::path& path) {
  throw SqliteError("run log " + path.string() + ": one result would take more than " +
                        human_bytes(int64_t(LogReader::max_bytes)) +
                        " of memory; narrow the query, or name another file with --db",
                    SQLITE_TOOBIG);
}

bool only_space_and_comments(Database& database, const char* rest) {
  // SQLite compiles whitespace and comments to no statement.
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

/// Refuses anything but a single read-only statement.
void check_user_statement(Database& database, const std::string& sql) {
  if (sql.find('\0') != std::string::npos) refuse("the statement contains a NUL byte; remove it");
  sqlite3_stmt* raw = nullptr;
  const char* rest = nullptr;
  if (sqlite3_prepare_v2(database.handle(), sql.c_str(), -1, &raw, &rest) != SQLITE_OK) database.fail("cannot be read");
  const OwnedStatement statement(raw);
  if (!statement) refuse("there is no statement; write one SELECT");
  if (!only_space_and_comments(database, rest)) refuse("there is more than one statement; run them one at a time");
  if (!sqlite3_stmt_readonly(raw)) refuse("the statement would write, but queries may only read");
  if (const int wanted = sqlite3_bind_parameter_count(raw))
    refuse("the statement has " + std::to_string(wanted) + " parameters, 0 values");
}

/// Reports an error in a user's statement as Error(usage), and an error of the file unchanged.
[[noreturn]] void report(const SqliteError& error, const QueryGuard& guard, std::chrono::milliseconds limit) {
  const int code = error.code();
  if (code == SQLITE_INTERRUPT)
    refuse("stopped after " + human_seconds(double(limit.count()) / 1000) +
           "; narrow the query, for example to one run or one metric name");
  if (!guard.refused().empty())
    refuse(guard.refused() + ", but queries may only read; write one SELECT (or WITH … SELECT)");
  if (code == SQLITE_TOOBIG) refuse("a value is longer than 32 MiB, the limit; select a part with substr()");
  if (code == SQLITE_ERROR || code == SQLITE_RANGE || code == SQLITE_MISMATCH)
    refuse(error.cause() + "; tables and views: SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')");
  throw error;
}

}  // namespace

Row read_row(const Statement& statement) {
  Row row;
  for (int column = 0; column < sqlite3_column_count(statement.handle()); ++column)
    row.push_back(cell(statement, column));
  return row;
}

std::vector<std::string> column_names(const Statement& statement) {
  std::vector<std::string> names;
  for (int column = 0; column < sqlite3_column_count(statement.handle()); ++column) {
    const char* given = sqlite3_column_name(statement.handle(), column);
    const std::string plain = given ? given : "column";
    std::string name = plain;
    for (int n = 1; std::find(names.begin(), names.end(), name) != names.end(); ++n)
      name = plain + ":" + std::to_string(n);
    names.push_back(name);
  }
  return names;
}

LogReader::LogReader(const std::filesystem::path& path, std::chrono::milliseconds limit)
    : path_(path), limit_(limit), log_(open(path, limit)), database_(log_.database) {
  // SQLite declares a virtual table at its first use, with statements that the guard would refuse as writing.
  Statement(database_, "SELECT 1 FROM json_each('[]'), json_tree('[]')");
}

bool LogReader::exists() const {
  std::error_code unknown;
  return std::filesystem::exists(path_, unknown) || unknown;
}

std::vector<RunInfo> LogReader::finished_with_hash(const std::string& config_hash, const std::string& since) const {
  return runs("config_hash = ?1 AND started_at >= ?2 AND status = 'finished'", {config_hash, since});
}

std::optional<RunInfo> LogReader::newest_finished(const std::string& name) const {
  const std::vector<RunInfo> found = runs("name = ?1 AND status = 'finished'", {name});
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::vector<RunInfo> LogReader::unfinished_with_hash(const std::string& config_hash, const std::string& since) const {
  return runs(
      "config_hash = ?1 AND started_at >= ?2 AND status <> 'finished' AND id NOT IN ("
      "WITH RECURSIVE resumed (id) AS ("
      "SELECT parent_run FROM v_runs WHERE status = 'finished' AND parent_run IS NOT NULL "
      "UNION SELECT r.parent_run FROM runs AS r JOIN resumed AS g ON r.id = g.id WHERE r.parent_run IS NOT NULL) "
      "SELECT id FROM resumed)",
      {config_hash, since});
}

RunInfo LogReader::run(int64_t run_id) const { return runs("id = ?1", {run_id}).at(0); }

std::string LogReader::live_status(int64_t run_id) const {
  const RunInfo found = run(run_id);
  return found.status == "lost" && RunLock::is_held(found.folder) ? "running" : found.status;
}

std::map<std::string, std::string> LogReader::params(int64_t run_id) const {
  std::map<std::string, std::string> params;
  each_row("SELECT key, value_text FROM run_params WHERE run_id = ?1", {run_id},
           [&](const Statement& row) { params[row.text(0)] = row.text(1); });
  return params;
}

int64_t LogReader::resolve_run(const std::string& run) const {
  const bool number = !run.empty() && run.size() < 19 && std::all_of(run.begin(), run.end(), ::isdigit);
  int64_t id = 0;
  const auto take_id = [&id](const Statement& row) { id = row.integer(0); };
  each_row("SELECT id FROM runs WHERE id = ?1", {number ? int64_t{std::stoll(run)} : -1}, take_id);
  if (id == 0) each_row("SELECT max(id) FROM runs WHERE name = ?1", {run}, take_id);
  if (id > 0) return id;

  if (!exists()) throw absent_log(path_);
  std::vector<std::string> names;
  each_row("SELECT DISTINCT name FROM runs", {}, [&](const Statement& row) { names.push_back(row.text(0)); });
  const std::string nearest = nearest_name(run, names);
  throw Error(ExitStatus::usage,
              "no run \"" + run + "\" in " + path_.string() + " (" + counted(int64_t(names.size()), "name") + ")" +
                  (nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?") + (nearest.empty() ? "; " : " ") +
                  "`wmtp-host runs list" + log_option(path_) + "` shows them");
}

std::vector<RunInfo> LogReader::runs(const std::string& condition, const std::vector<SqlValue>& arguments) const {
  std::vector<RunInfo> found;
  each_row("SELECT id, name, status FROM v_runs WHERE " + condition + " ORDER BY id DESC", arguments,
           [&](const Statement& row) {
             const int64_t id = row.integer(0);
             found.push_back({id, row.text(1), row.text(2), run_folder_path(path_, id, row.text(1))});
           });
  return found;
}

Table LogReader::run_user_query(const std::string& sql, int64_t max_rows) const {
  const TimeLimit time_limit(database_, limit_);
  const QueryGuard guard(database_);
  try {
    check_user_statement(database_, sql);
    return table(sql, {}, max_rows, /*by_user=*/true);
  } catch (const SqliteError& error) {
    report(error, guard, limit_);
  }
}

Table LogReader::query(const std::string& sql, const std::vector<SqlValue>& arguments, int64_t max_rows) const {
  const TimeLimit time_limit(database_, limit_);
  const QueryGuard guard(database_);
  return table(sql, arguments, max_rows, /*by_user=*/false);
}

void LogReader::each_row(const std::string& sql, const std::vector<SqlValue>& arguments,
                         const std::function<void(const Statement&)>& on_row, size_t most) const {
  const TimeLimit time_limit(database_, limit_);
  const QueryGuard guard(database_);
  Statement statement(database_, sql);
  statement.bind_all(arguments);
  for (size_t held = 0; statement.step(); on_row(statement))
    if ((held += text_bytes(statement)) > most) refuse_size(path_);
}

Table LogReader::table(const std::string& sql, const std::vector<SqlValue>& arguments, int64_t max_rows,
                       bool by_user) const {
  Statement statement(database_, sql);
  statement.bind_all(arguments);
  Table table{column_names(statement), {}, false};
  for (size_t held = 0; statement.step();) {
    table.capped = int64_t(table.rows.size()) >= max_rows;
    if (table.capped) break;
    held += sizeof(Row) + table.columns.size() * sizeof(Json) + text_bytes(statement);
    if (held > max_bytes && by_user)
      refuse("the result is larger than " + human_bytes(int64_t(max_bytes)) + "; request fewer rows");
    if (held > max_bytes) refuse_size(path_);
    table.rows.push_back(read_row(statement));
  }
  return table;
}

}  // namespace wmtp
