// One error type and one enum of endings: the process's exit code and the last column of the run's row.
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
  peer = 6,     ///< a peer was lost or timed out
  storage = 7,  ///< disk full, I/O, run log not usable
  device_memory = 8,
  bug = 70,          ///< our own mistake
  interrupted = 75,  ///< stopped by a signal with a checkpoint, resumable
};

/// Thrown inside, caught at three walls only: cli, the plugin boundary, the rank boundary.
/// The text is lower case, says where, what was found, what was wanted, what to do; it may have several lines.
class Error : public std::runtime_error {
 public:
  Error(ExitStatus status, const std::string& message) : std::runtime_error(message), status_(status) {}
  ExitStatus status() const { return status_; }

 private:
  ExitStatus status_;
};

}  // namespace wmtp
