#include "process/process_stat.hpp"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace wmtp {
namespace {

/// When the machine was started, in seconds since 1970.
std::optional<int64_t> boot_time() {
  std::ifstream in("/proc/stat");
  for (std::string name, line; in >> name; std::getline(in, line))
    if (int64_t seconds = 0; name == "btime" && in >> seconds) return seconds;
  return std::nullopt;
}

}  // namespace

std::optional<ProcessStat> process_stat(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t name_end = text.rfind(')');  // the name may contain spaces and parentheses
  const std::optional<int64_t> boot = boot_time();
  if (name_end == std::string::npos || !boot) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state;
  constexpr int fields_before_start = 18;  // ppid (the 4th) to itrealvalue (the 21st)
  std::string skipped;
  for (int i = 0; i < fields_before_start; ++i) fields >> skipped;
  int64_t ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;
  stat.begun = std::chrono::system_clock::time_point(std::chrono::seconds(*boot + ticks / sysconf(_SC_CLK_TCK)));
  return stat;
}

}  // namespace wmtp
