// What the kernel reports about a process in /proc/PID/stat.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

namespace wmtp {

struct ProcessStat {
  char state = '?';                             ///< 'R', 'S', 'D', 'Z', 'T' …, as in proc(5)
  std::chrono::system_clock::time_point begun;  ///< when the process was started, to about 10 ms
  /// By a signal or by a debugger; it computes nothing until it is continued.
  bool is_stopped() const { return state == 'T' || state == 't'; }
};

/// nullopt if there is no such process, or no /proc.
std::optional<ProcessStat> process_stat(pid_t process);

}  // namespace wmtp
