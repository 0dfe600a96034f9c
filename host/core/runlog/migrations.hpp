// The schema of a run log, brought to this program's version.
//
// db/NNN_*.sql are the steps; `user_version` is the number of the last one that was run. Steps and the new number are
// one BEGIN IMMEDIATE: a crash leaves the old version whole, and of several programs that start at once one migrates
// while the others wait and then find nothing to do (the version is read again inside the transaction).
// Views carry no version: they are created anew when their text differs.
#pragma once

#include "core/runlog/database.hpp"

namespace wmtp {

/// The version of the newest script in this program.
int64_t newest_schema_version();

/// Whether the file holds nothing yet. Error(storage) when it is another program's database or newer than this program.
bool is_new_log(Database& database);

/// Runs the missing scripts and renews the views. Call is_new_log first.
void migrate(Database& database);

/// For a reader, in the connection's own temporary schema: tables that the file is too old for, empty, and views of
/// this program where the file's differ.
void shadow_old_schema(Database& database);

}  // namespace wmtp
