// Limits for a query of an untrusted log: read-only, limited in time and in the size of values. One of the log's views
// may be unbounded, and its texts may be as long as SQLite allows.
#pragma once

#include <chrono>
#include <string>

#include "log/database.hpp"

namespace wmtp {

/// Permanently rejects values longer than 32 MiB on this connection (SQLITE_TOOBIG).
void limit_values(const Database& database);

/// Stops the connection's statements at the deadline (SQLITE_INTERRUPT) during its lifetime. One at a time.
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

/// During its lifetime the connection compiles only reading statements: no ATTACH, no transactions, no pragmas that
/// change anything.
class QueryGuard {
 public:
  explicit QueryGuard(const Database& database);
  ~QueryGuard();
  QueryGuard(const QueryGuard&) = delete;

  /// The reason of the first refusal; "" if none.
  const std::string& refused() const { return refused_; }

 private:
  static int authorize(void* self, int action, const char* first, const char* second, const char* schema,
                       const char* inner);

  const Database& database_;
  std::string refused_;
};

}  // namespace wmtp
