// Whether a process runs, for tests of processes that must have ended.
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>

namespace wmtp::test {

/// A process that has ended remains a zombie until its parent reaps it.
inline bool is_running(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t state = stat.rfind(") ");
  return state != std::string::npos && stat[state + 2] != 'Z';
}

}  // namespace wmtp::test
