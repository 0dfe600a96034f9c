// Error, and ExitStatus: the process's exit code, which is also stored in the run's row of the log.
#pragma once

#include <stdexcept>
#include <string>

namespace wmtp {

enum class ExitStatus : int {
  done = 0,
  usage = 2,    ///< usage or experiment refused, before any training
  plugin = 3,   ///< plugin refused, or it threw
  data = 4,     ///< data or checkpoint refused
  guard = 5,    ///< stopped by a numeric guard
  peer = 6,     ///< a rank was lost or timed out
  storage = 7,  ///< disk full, I/O, run log not usable
  device_memory = 8,
  bug = 70,          ///< a bug in this program
  interrupted = 75,  ///< stopped by a signal: resumable, unless it says that nothing was saved
};

/// Caught only at three boundaries: the command line, plugins, and the start of a rank. The message is lower case and
/// states the place, the found and the expected value, and what to do; it may have several lines.
class Error : public std::runtime_error {
 public:
  Error(ExitStatus status, const std::string& message) : std::runtime_error(message), status_(status) {}
  ExitStatus status() const { return status_; }

 private:
  ExitStatus status_;
};

}  // namespace wmtp
