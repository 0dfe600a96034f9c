// Time of a thread by phase: every moment counts once, for the innermost scope. A scope reads the clock twice.
#pragma once

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

/// Seconds of this thread by name, since its start or forget_time_used(); "other" outside of all scopes.
std::map<std::string, double> time_used();
double time_used(const std::string& name);
void forget_time_used();

}  // namespace wmtp
