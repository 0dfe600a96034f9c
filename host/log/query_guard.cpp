// Lists allowed actions rather than forbidden ones, because SQLite adds new actions.
#include "log/query_guard.hpp"

#include <sqlite3.h>

#include <set>
#include <string_view>

namespace wmtp {
namespace {

/// Pragmas that only read; those in the second set also if they have an argument.
const std::set<std::string_view> reading_pragmas{
    "application_id", "collation_list", "compile_options", "data_version", "database_list", "encoding",
    "foreign_keys",   "freelist_count", "function_list",   "journal_mode", "page_count",    "page_size",
    "query_only",     "schema_version", "table_list",      "user_version"};
const std::set<std::string_view> reading_with_argument{
    "foreign_key_check", "foreign_key_list", "index_info", "index_list", "index_xinfo",
    "integrity_check",   "quick_check",      "table_info", "table_list", "table_xinfo"};

bool reads_only(int action, std::string_view first, bool has_second, std::string_view second) {
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
      return true;
    case SQLITE_FUNCTION:
      return second != "load_extension";
    case SQLITE_PRAGMA:
      return reading_with_argument.contains(first) || (reading_pragmas.contains(first) && !has_second);
    default:
      return false;
  }
}

std::string reason(int action, std::string_view first, bool has_second) {
  switch (action) {
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
      return "it would write to " + std::string(first);
    case SQLITE_ATTACH:
      return "it would attach another database";
    case SQLITE_PRAGMA:
      return "pragma " + std::string(first) + (has_second ? " with a value" : "") + " is not read-only";
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
      return "it would begin or end a transaction";
    case SQLITE_FUNCTION:
      return "it would load code";
    default:
      return "it would change the database";
  }
}

}  // namespace

void limit_values(const Database& database) {
  sqlite3_limit(database.handle(), SQLITE_LIMIT_LENGTH, 32 << 20);
  sqlite3_limit(database.handle(), SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000);  // matching is quadratic in this length
}

TimeLimit::TimeLimit(const Database& database, std::chrono::milliseconds limit)
    : database_(database), deadline_(std::chrono::steady_clock::now() + limit) {
  // Instructions between checks of the clock; a single instruction may process 32 MiB.
  sqlite3_progress_handler(database.handle(), 100, &TimeLimit::past_deadline, this);
}

TimeLimit::~TimeLimit() { sqlite3_progress_handler(database_.handle(), 0, nullptr, nullptr); }

int TimeLimit::past_deadline(void* self) {
  return std::chrono::steady_clock::now() > static_cast<TimeLimit*>(self)->deadline_;
}

QueryGuard::QueryGuard(const Database& database) : database_(database) {
  sqlite3_set_authorizer(database.handle(), &QueryGuard::authorize, this);
}

QueryGuard::~QueryGuard() { sqlite3_set_authorizer(database_.handle(), nullptr, nullptr); }

int QueryGuard::authorize(void* self, int action, const char* first, const char* second, const char*, const char*) {
  const std::string_view one = first ? first : "", two = second ? second : "";
  if (reads_only(action, one, second != nullptr, two)) return SQLITE_OK;
  // The first refusal describes the statement; later ones are consequences.
  auto* guard = static_cast<QueryGuard*>(self);
  if (guard->refused_.empty()) guard->refused_ = reason(action, one, second != nullptr);
  return SQLITE_DENY;
}

}  // namespace wmtp
