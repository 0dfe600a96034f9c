// What a question to the log may do: read, for a limited time, values of a limited size.
//
// A log may come from elsewhere: one of its views may have no end, a text in it may be as long as SQLite allows.
#pragma once

#include <chrono>
#include <string>

#include "core/runlog/database.hpp"

namespace wmtp {

/// Of a connection that reads, for good: no value is longer than 32 MiB (SQLITE_TOOBIG), so that none takes long.
void limit_values(const Database& database);

/// For its lifetime statements of the connection are stopped at the deadline (SQLITE_INTERRUPT). One at a time.
class TimeLimit {
 public:
  TimeLimit(const Database& database, std::chrono::milliseconds limit);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;

 private:
  static int past_deadline(void* self);

  const Database& database_;
  std::chrono::steady_clock::time_point deadline_;
};

/// For its lifetime the connection compiles reading statements only: no ATTACH, no transaction, no pragma that changes
/// anything.
class QueryGuard {
 public:
  explicit QueryGuard(const Database& database);
  ~QueryGuard();
  QueryGuard(const QueryGuard&) = delete;

  /// What was refused last, in words; "" when nothing was.
  const std::string& refused() const { return refused_; }

 private:
  static int authorize(void* self, int action, const char* first, const char* second, const char* schema,
                       const char* inner);

  const Database& database_;
  std::string refused_;
};

}  // namespace wmtp
