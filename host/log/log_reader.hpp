// Read-only queries of the run log. The connection is read-only; no transaction outlives a call, so that the writer can
// truncate its WAL file. Every statement has limits, because a log may be untrusted: a deadline, 32 MiB per value, 256
// MiB per result.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "log/database.hpp"
#include "log/readable_log.hpp"

namespace wmtp {

struct RunInfo {
  int64_t id = 0;
  std::string name;
  std::string status;            ///< as in v_runs
  std::filesystem::path folder;  ///< parent of model/ and step-NNNNNN/
};

/// Cells: null, integer, double (may be infinite, never NaN), text; a blob is text x'0a1b'. Column names are unique: a
/// second "step" becomes "step:1".
using Row = std::vector<Json>;
struct Table {
  std::vector<std::string> columns;
  std::vector<Row> rows;
  bool capped = false;  ///< there were more rows than max_rows
};

Row read_row(const Statement& statement);
std::vector<std::string> column_names(const Statement& statement);

class LogReader {
 public:
  static constexpr int64_t all_rows = std::numeric_limits<int64_t>::max();
  static constexpr size_t max_bytes = size_t{256} << 20, unlimited = std::numeric_limits<size_t>::max();

  /// Error(storage) if the file is not a run log, is newer than this program, or cannot be read. A missing file is an
  /// empty log. A query is stopped after `query_limit`.
  explicit LogReader(const std::filesystem::path& database,
                     std::chrono::milliseconds query_limit = std::chrono::seconds(30));

  /// The finished runs of this configuration, newest first; `since`: only those that started then or later.
  std::vector<RunInfo> finished_with_hash(const std::string& config_hash, const std::string& since = "") const;
  /// The newest finished run of this name, for `run:NAME`.
  std::optional<RunInfo> newest_finished(const std::string& name) const;
  /// The unfinished runs of this configuration, newest first, for --resume. Runs resumed by a finished run count as
  /// finished. Includes active runs: only the lock of their folder identifies those reliably.
  std::vector<RunInfo> unfinished_with_hash(const std::string& config_hash, const std::string& since = "") const;
  /// A run by id or by name (the newest of that name). Error(usage) with the nearest name if there is none, or with the
  /// path if there is no log.
  int64_t resolve_run(const std::string& run) const;
  /// [run_id exists]
  RunInfo run(int64_t run_id) const;
  /// The run's status for a program that follows it: as in v_runs; but a run without a heartbeat, because its log is
  /// locked or the machine was suspended, is "running", not "lost", while a process of this machine holds the lock of
  /// its folder. [run_id exists]
  std::string live_status(int64_t run_id) const;
  /// The run's settings, as in run_params.value_text, by key.
  std::map<std::string, std::string> params(int64_t run_id) const;

  /// Runs a user's read-only statement. At most `max_rows` rows. Error(usage) with SQLite's message if it is wrong,
  /// writes, or exceeds a limit; Error(storage) if the file fails.
  Table run_user_query(const std::string& sql, int64_t max_rows) const;

  /// Runs a statement of this program, with ?1, ?2, … bound to `arguments`. Error(storage) if the file fails.
  Table query(const std::string& sql, const std::vector<SqlValue>& arguments = {}, int64_t max_rows = all_rows) const;
  /// Like query, one row in memory at a time; texts may have `most` bytes in total. `on_row` must not use this reader.
  void each_row(const std::string& sql, const std::vector<SqlValue>& arguments,
                const std::function<void(const Statement&)>& on_row, size_t most = max_bytes) const;

  const std::filesystem::path& database() const { return path_; }
  /// A missing file reads as an empty log.
  bool exists() const;

 private:
  Table table(const std::string& sql, const std::vector<SqlValue>& arguments, int64_t max_rows, bool by_user) const;
  std::vector<RunInfo> runs(const std::string& condition, const std::vector<SqlValue>& arguments) const;

  std::filesystem::path path_;
  std::chrono::milliseconds limit_;
  mutable ReadableLog log_;
  Database& database_;
};

}  // namespace wmtp
