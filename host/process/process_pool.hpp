// Runs several processes of this program concurrently. [launcher process]
//
// 1. the next process starts whenever fewer than `jobs` run; each leads its own process group (a terminal's Ctrl-C
//    reaches only this process) and is killed when this process ends
// 2. its stdout and stderr are forwarded line by line with its prefix; with jobs = 1 it inherits a terminal
// 3. after a request to stop (stop_requests.hpp) no further process starts; it and its repetitions are forwarded to the
//    running ones
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace wmtp {

struct PooledProcess {
  size_t number = 0;                               ///< the index passed to `ended`
  std::vector<std::string> arguments;              ///< argv[1..]
  std::map<std::string, std::string> environment;  ///< in addition to ours
  std::string prefix;                              ///< of each output line
};

struct ProcessPool {
  size_t jobs = 1;
  std::function<std::optional<PooledProcess>()> next;  ///< nothing: no more
  /// `exit_code`: 75 for a process killed by the forwarded signal, 6 by another one. Returns whether to start more.
  std::function<bool(size_t number, int exit_code)> ended;
};

/// Returns when all processes have ended; true if a request to stop has come meanwhile, or `ended` has returned false.
/// Error(storage) if a process or pipe cannot be created; kills the others.
bool run_pool(const ProcessPool& queue);

}  // namespace wmtp
