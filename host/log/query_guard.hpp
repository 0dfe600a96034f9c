// What a question to the log may do: read, for a limited time.
#pragma once

#include <chrono>
#include <string>

#include "log/database.hpp"

namespace wmtp {

/// For its lifetime the connection compiles reading statements only (no ATTACH, no transaction, no pragma that changes
/// anything) and stops a statement at the deadline.
class QueryGuard {
 public:
  QueryGuard(const Database& database, std::chrono::milliseconds limit);
  ~QueryGuard();
  QueryGuard(const QueryGuard&) = delete;

  /// What was refused last, in words; "" when nothing was.
  const std::string& refused() const { return refused_; }

 private:
  static int authorize(void* self, int action, const char* first, const char* second, const char* schema,
                       const char* inner);
  static int past_deadline(void* self);

  const Database& database_;
  std::chrono::steady_clock::time_point deadline_;
  std::string refused_;
};

}  // namespace wmtp
