// Time of a thread by phase: every moment counts once, for the innermost scope. A scope reads the clock twice. The clock is
// the host's, or that of a device to which the thread gives work faster than it is done.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

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

/// The clock of a device, which may be behind the thread.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  /// The device is to note the time when it has done all work so far. [the thread]
  virtual void mark() = 0;
  /// Seconds between marks, in order, of those that the device has reached since the last call. [the thread]
  virtual std::vector<double> passed() = 0;
};
/// From now on this thread's time is that of `clock`, which outlives the thread.
void use_device_clock(DeviceClock& clock);

/// Seconds of this thread by name, since its start or forget_time_used(); "other" outside of all scopes. Of a device's
/// clock: up to the last mark that it has reached.
std::map<std::string, double> time_used();
double time_used(const std::string& name);
void forget_time_used();

}  // namespace wmtp
