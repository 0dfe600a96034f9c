// Time of a thread by phase: each moment counts once, for the innermost scope. A scope reads the clock twice: the
// host's, or that of a device, whose queue of work may be behind the thread.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace wmtp {

/// Attributes this thread's time to `name` while it exists.
class TimeScope {
 public:
  explicit TimeScope(const std::string& name);
  ~TimeScope();
  TimeScope(const TimeScope&) = delete;

 private:
  double* previous_;
};

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// That the threads of this process have computed: other processes of a busy machine do not lengthen it.
double processor_seconds();

/// The clock of a device, which executes the thread's work asynchronously.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  /// Enqueues a timestamp behind all work submitted so far. [the thread]
  virtual void mark() = 0;
  /// Seconds between consecutive marks, for the marks reached since the last call. [the thread]
  virtual std::vector<double> passed() = 0;
};
/// Measures this thread's time by `clock` from now on. `clock` must outlive the thread.
void use_device_clock(DeviceClock& clock);

/// Seconds of this thread by scope name, since its start or reset_time_used(); "other" outside all scopes. With a
/// device's clock: up to the last mark that it has reached.
std::map<std::string, double> time_used();
double time_used(const std::string& name);
void reset_time_used();

}  // namespace wmtp
