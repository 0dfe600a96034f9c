#include "log/migrations.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/embedded.hpp"

namespace wmtp {
namespace {

constexpr int64_t log_application_id = 2003661936;  // also in db/001_first.sql

/// 1 for "001_first.sql"; 0 for a file that is not a step.
int64_t step_number(const std::string& file) {
  const bool numbered = file.size() > 4 && std::all_of(file.begin(), file.begin() + 3, ::isdigit) && file[3] == '_';
  return numbered ? std::stoll(file.substr(0, 3)) : 0;
}

struct View {
  std::string name, sql;
};

/// The statements of views.sql as SQLite stores them: without preceding comments and the final semicolon.
const std::vector<View>& current_views() {
  static const std::vector<View> views = [] {
    std::vector<View> found;
    const std::string& text = embedded_sql().at("views.sql");
    const std::string create = "CREATE VIEW ";
    for (size_t at = text.find(create); at != std::string::npos; at = text.find(create, at)) {
      const size_t end = text.find(';', at);
      const size_t name = at + create.size();
      found.push_back({text.substr(name, text.find(' ', name) - name), text.substr(at, end - at)});
      at = end;
    }
    return found;
  }();
  return views;
}

std::vector<View> views_that_differ(Database& database) {
  std::vector<View> different;
  Statement find(database, "SELECT sql FROM main.sqlite_schema WHERE type = 'view' AND name = ?1");
  for (const View& view : current_views()) {
    find.bind(1, view.name);
    if (!find.step() || find.text(0) != view.sql) different.push_back(view);
    find.reset();
  }
  return different;
}

}  // namespace

int64_t newest_schema_version() {
  int64_t newest = 0;
  for (const auto& [file, sql] : embedded_sql()) newest = std::max(newest, step_number(file));
  return newest;
}

bool is_new_log(Database& database) {
  // In one snapshot, because another program may be creating this file.
  database.execute("BEGIN");
  const int64_t version = database.integer("PRAGMA user_version");
  const int64_t application = database.integer("PRAGMA application_id");
  const bool empty = database.integer("SELECT count(*) FROM sqlite_schema") == 0;
  database.execute("COMMIT");
  if (empty && version == 0) return true;
  const std::string where = "run log " + database.path().string() + ": ";
  if (application != log_application_id) {
    throw SqliteError(where + "is a SQLite database of another program (application_id " + std::to_string(application) +
                          ", a run log has " + std::to_string(log_application_id) + "); name another file with --db",
                      SQLITE_NOTADB);
  }
  if (version > newest_schema_version()) {
    throw SqliteError(where + "has schema version " + std::to_string(version) +
                          ", this program supports versions up to " + std::to_string(newest_schema_version()) +
                          "; use the newer wmtp-host that wrote it, or name another file with --db",
                      SQLITE_SCHEMA);
  }
  return false;
}

void migrate(Database& database) {
  const std::string version = "PRAGMA user_version";
  if (database.integer(version) < newest_schema_version()) {
    Transaction transaction(database);
    const int64_t found = database.integer(version);
    for (const auto& [file, sql] : embedded_sql()) {
      if (step_number(file) <= found) continue;
      database.execute(sql);
      database.execute("PRAGMA user_version = " + std::to_string(step_number(file)));
    }
    transaction.commit();
  }
  if (views_that_differ(database).empty()) return;
  Transaction transaction(database);
  for (const View& view : views_that_differ(database)) {
    database.execute("DROP VIEW IF EXISTS main." + view.name);
    database.execute(view.sql);
  }
  transaction.commit();
}

void shadow_old_schema(Database& database) {
  const std::string create = "CREATE TABLE ";
  const int64_t found = database.integer("PRAGMA user_version");
  for (const auto& [file, sql] : embedded_sql()) {
    if (step_number(file) <= found) continue;
    std::string temporary = sql;  // all later steps only add tables
    for (size_t at = temporary.find(create); at != std::string::npos; at = temporary.find(create, at + create.size()))
      temporary.replace(at, create.size(), "CREATE TEMP TABLE ");
    database.execute(temporary);
  }
  for (const View& view : views_that_differ(database))
    database.execute("CREATE TEMP VIEW " + view.sql.substr(std::string("CREATE VIEW ").size()));
}

}  // namespace wmtp
