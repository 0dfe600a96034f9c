// Migrates a run log's schema to this program's version.
//
// db/NNN_*.sql are the steps; `user_version` is the number of the last one applied. Steps and the new number are one
// BEGIN IMMEDIATE: a crash leaves the old version intact, and of several programs that start at the same time one
// migrates while the others wait and then find nothing to do (the version is read again inside the transaction). Views
// have no version: they are recreated if their text differs.
#pragma once

#include "log/database.hpp"

namespace wmtp {

/// The version of the newest script in this program.
int64_t newest_schema_version();

/// Whether the file is still empty. Error(storage) if it is another program's database or newer than this program.
bool is_new_log(Database& database);

/// Runs missing scripts and recreates outdated views. Call is_new_log first.
void migrate(Database& database);

/// For a reader: creates, in the connection's temporary schema, tables that an old file lacks (empty) and this
/// program's views where the file's differ.
void shadow_old_schema(Database& database);

}  // namespace wmtp
