#include "process/process_stat.hpp"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace wmtp {

std::optional<ProcessStat> process_stat(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t name_end = text.rfind(')');  // the name may contain spaces and parentheses
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state;
  constexpr int fields_before_start = 18;  // ppid (the 4th) to itrealvalue (the 21st)
  std::string skipped;
  for (int i = 0; i < fields_before_start; ++i) fields >> skipped;
  int64_t ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;
  timespec up{};
  clock_gettime(CLOCK_BOOTTIME, &up);  // counts from the same moment as `ticks`
  const std::chrono::duration<double> age(double(up.tv_sec) + double(up.tv_nsec) / 1e9 -
                                          double(ticks) / double(sysconf(_SC_CLK_TCK)));
  using Clock = std::chrono::system_clock;
  stat.begun = Clock::now() - std::chrono::duration_cast<Clock::duration>(age);
  return stat;
}

}  // namespace wmtp
