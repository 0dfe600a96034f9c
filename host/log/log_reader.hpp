// Read-only questions to the run log. Every connection is opened read-only with short transactions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace wmtp {

struct FinishedRun {
  int64_t id = 0;
  std::string name;
  std::filesystem::path folder;  ///< holds model/ and step-NNNNNN/
};

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<nlohmann::json>> rows;
  bool capped = false;
};

class LogReader {
 public:
  /// Error(storage) when the file is not a run log, is newer than this program, or cannot be read. A missing file is an
  /// empty log.
  explicit LogReader(const std::filesystem::path& database);
  ~LogReader();

  /// The newest finished run of this configuration, newest first.
  std::vector<FinishedRun> finished_with_hash(const std::string& config_hash) const;
  /// The newest finished run of this name, for `run:NAME`.
  std::optional<FinishedRun> newest_finished(const std::string& name) const;
  /// The newest unfinished run of this configuration, for --resume (running with a live heartbeat is left out).
  std::optional<FinishedRun> newest_unfinished(const std::string& config_hash) const;
  /// A run by id or by name (the newest of that name). Error(usage) with the nearest name when there is none.
  int64_t resolve_run(const std::string& run) const;

  /// Runs one read-only statement; Error(usage) with SQLite's text. At most `max_rows` rows.
  Table query(const std::string& sql, const std::vector<std::string>& arguments, int64_t max_rows) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace wmtp
