// What a thread spends its time on: every moment between two scopes' ends counts once, for the innermost scope.
// A scope costs two readings of the clock.
#pragma once

#include <map>
#include <string>

namespace wmtp {

/// What this thread does while the scope lives belongs to `name`, and to the scope around it afterwards.
class TimeScope {
 public:
  explicit TimeScope(const std::string& name);
  ~TimeScope();
  TimeScope(const TimeScope&) = delete;

 private:
  double* previous_;
};

/// Seconds of this thread by name, since it started or since forget_time_used(); outside of every scope "other".
std::map<std::string, double> time_used();
/// Of one of them.
double time_used(const std::string& name);
void forget_time_used();

}  // namespace wmtp
