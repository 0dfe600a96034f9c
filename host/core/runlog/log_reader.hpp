// Read-only questions to the run log. The connection is opened read-only; no transaction outlives a call, so that the
// writer's log file can be trimmed. Every statement has its limits, as a log may come from elsewhere: a deadline, 32
// MiB for a value, 256 MiB for an answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace wmtp {

class Statement;

struct LoggedRun {
  int64_t id = 0;
  std::string name;
  std::string status;            ///< as v_runs says it
  std::filesystem::path folder;  ///< holds model/ and step-NNNNNN/
};

/// Cells: null, integer, double (which may be infinite, never NaN), text; a blob is text x'0a1b'. Column names are
/// unique: a second "step" is "step:1".
using Row = std::vector<nlohmann::json>;
struct Table {
  std::vector<std::string> columns;
  std::vector<Row> rows;
  bool capped = false;  ///< there were more rows than asked for
};

class LogReader {
 public:
  /// Error(storage) when the file is not a run log, is newer than this program, or cannot be read. A missing file is an
  /// empty log. A query that takes longer than `query_limit` is stopped.
  explicit LogReader(const std::filesystem::path& database,
                     std::chrono::milliseconds query_limit = std::chrono::seconds(30));
  ~LogReader();

  /// The finished runs of this configuration, newest first.
  std::vector<LoggedRun> finished_with_hash(const std::string& config_hash) const;
  /// The newest finished run of this name, for `run:NAME`.
  std::optional<LoggedRun> newest_finished(const std::string& name) const;
  /// The runs of this configuration that have not finished, newest first, for --resume; those that a finished run has
  /// gone on from count as finished. A run that is alive is among them: its folder's lock tells, at once and for sure.
  std::vector<LoggedRun> unfinished_with_hash(const std::string& config_hash) const;
  /// A run by id or by name (the newest of that name). Error(usage) with the nearest name when there is none, or with
  /// the place that was looked at when there is no log.
  int64_t resolve_run(const std::string& run) const;
  /// One that is there.
  LoggedRun run(int64_t run_id) const;

  /// A person's statement, which may only read. At most `max_rows` rows. Error(usage) with SQLite's text when it is
  /// wrong, writes, or asks for too much; Error(storage) when the file fails.
  Table ask(const std::string& sql, int64_t max_rows) const;

  /// A statement of this program's own, its ?1, ?2, … bound to `arguments` as text. Error(storage) when the file fails.
  Table query(const std::string& sql, const std::vector<std::string>& arguments, int64_t max_rows) const;

  /// As query, row by row, so that no more than one is held: false from `visit` ends it. Returns the columns' names.
  /// `visit` asks this reader nothing.
  std::vector<std::string> each_row(const std::string& sql, const std::vector<std::string>& arguments,
                                    const std::function<bool(Row&)>& visit) const;
  /// Calls `take` with each row of a statement of this program's own, its ?1, ?2, … bound to `numbers`: for the many
  /// rows of curves, of which a Table would be too large. Error(storage) when the file fails.
  void each_row(const std::string& sql, const std::vector<int64_t>& numbers,
                const std::function<void(const Statement&)>& take) const;

  const std::filesystem::path& database() const;
  /// false: there is no file, which reads like an empty log.
  bool is_there() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace wmtp
