// The last resort of the run log: `<database>.run-<id>.spool`, one JSON object for each row that the database did not
// take, with the table's name and its columns. Made at the first such row. A batch is written whole or not at all.
#pragma once

#include <deque>
#include <filesystem>

#include "core/runlog/records.hpp"

namespace wmtp {

class Spool {
 public:
  Spool(const std::filesystem::path& database, int64_t run_id);

  const std::filesystem::path& path() const { return path_; }
  /// False when this file cannot be written either.
  bool write(const std::deque<Record>& records);
  /// The end of the run, for a row that could not be closed.
  bool write_end(const std::string& status, int exit_code, const std::string& ended_at);

 private:
  bool append(const std::string& lines);

  std::filesystem::path path_;
  int64_t run_id_;
};

}  // namespace wmtp
