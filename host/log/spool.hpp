// The fallback of the run log: `<database>.run-<id>.spool`, with one JSON object (table name and columns) for each row
// that could not be written to the database. Created when needed. A batch is written completely or not at all; its
// first line has the run's key and a random name of the batch.
//
// The next program that opens the log adds the rows to it: each batch once, also if several programs do so at a time,
// and only to the run with that key, because the file may since have been replaced by another log.
#pragma once

#include <deque>
#include <filesystem>

#include "log/records.hpp"

namespace wmtp {

class Spool {
 public:
  Spool(const std::filesystem::path& database, int64_t run_id, std::string run_key);

  const std::filesystem::path& path() const { return path_; }
  /// False if this file cannot be written.
  bool write(const std::deque<LogRecord>& records);
  /// Records the end of a run whose row could not be updated.
  void write_end(const std::string& status, int exit_code, const std::string& ended_at);

 private:
  bool append(const std::string& lines);

  std::filesystem::path path_;
  int64_t run_id_;
  std::string run_key_;
};

/// Adds the spools next to a log that belong to its runs, and removes them. What cannot be added now stays, with a
/// warning.
void load_spools(const std::filesystem::path& database);

}  // namespace wmtp
