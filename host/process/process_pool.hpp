// Calls of this program beside each other, so many at a time. [launcher process; knows no LibTorch]
//
// 1. the next one starts whenever fewer than `jobs` run; each is in a process group of its own (a terminal's Ctrl-C
//    reaches only us) and dies with us
// 2. its stdout and stderr are forwarded line by line under its prefix; alone it has our terminal, when there is one
// 3. SIGINT, SIGTERM and SIGHUP: no further one starts, and those that run get each such signal. What a second one
//    means is theirs to know
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace wmtp {

struct PooledProcess {
  size_t number = 0;                               ///< for `ended`
  std::vector<std::string> arguments;              ///< argv[1..]
  std::map<std::string, std::string> environment;  ///< beside ours
  std::string prefix;                              ///< of its lines
};

struct ProcessPool {
  size_t jobs = 1;
  std::function<std::optional<PooledProcess>()> next;  ///< nothing: none is left
  /// With an exit code of ours: for one killed by the signal that was passed on 75, by another one 6. Gives whether
  /// further ones may start.
  std::function<bool(size_t number, int exit_code)> ended;
};

/// Returns when all that started have ended. Error(storage) when the system gives no process or pipe; the others are
/// killed then.
void run_pool(const ProcessPool& queue);

}  // namespace wmtp
