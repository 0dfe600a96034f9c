// Time of a thread by phase: every moment counts once, for the innermost scope. A scope reads the clock twice.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace wmtp {

/// Counts this thread's time for `name` while it exists, then for the enclosing scope again.
class TimeScope {
 public:
  explicit TimeScope(const std::string& name);
  ~TimeScope();
  TimeScope(const TimeScope&) = delete;

 private:
  double* previous_;
};

/// Seconds from `start` to now.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Seconds of this thread by name, since its start or forget_time_used(); "other" outside of all scopes.
std::map<std::string, double> time_used();
double time_used(const std::string& name);
void forget_time_used();

}  // namespace wmtp
