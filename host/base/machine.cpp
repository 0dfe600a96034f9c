#include "base/machine.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// The number in a file; nullopt for "max" or a missing file.
std::optional<int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  int64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;
}

struct GroupFiles {
  const char *limit, *used, *cache_prefix;
};
constexpr GroupFiles of_v1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"};
constexpr GroupFiles of_v2{"memory.max", "memory.current", ""};

void take_group(const fs::path& folder, const GroupFiles& files, std::optional<int64_t>& least) {
  const auto limit = number_in(folder / files.limit), used = number_in(folder / files.used);
  if (!limit || !used) return;
  const auto stat = numbers_in(folder / "memory.stat");
  int64_t held = *used;
  for (const char* name : {"active_file", "inactive_file"})
    if (const auto cache = stat.find(std::string(files.cache_prefix) + name); cache != stat.end())
      held -= cache->second;
  // The kernel does not update both numbers at once, so the cache may exceed the usage; "no limit" is near INT64_MAX.
  const int64_t left = *limit - std::max<int64_t>(0, held);
  least = std::max<int64_t>(0, least ? std::min(*least, left) : left);
}

/// A group's limit applies to all groups below it. In a container the path may be the host's, which is not visible
/// there, but the root is.
void take_groups(const fs::path& top, const fs::path& group, const GroupFiles& files, std::optional<int64_t>& least) {
  for (fs::path at = group.relative_path(); !at.empty(); at = at.parent_path()) take_group(top / at, files, least);
  take_group(top, files, least);
}

}  // namespace

std::map<std::string, int64_t> numbers_in(const fs::path& file) {
  std::map<std::string, int64_t> numbers;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t value = 0;
    if (words >> name >> value) numbers[name.substr(0, name.find(':'))] = value;
  }
  return numbers;
}

std::optional<int64_t> available_memory(const fs::path& root) {
  std::optional<int64_t> least;
  const auto system = numbers_in(root / "proc/meminfo");
  if (const auto available = system.find("MemAvailable"); available != system.end()) least = available->second * 1024;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/user.slice", "9:memory:/docker/4f"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") take_groups(root / "sys/fs/cgroup", group, of_v2, least);
    if (controllers.find(",memory,") != std::string::npos)
      take_groups(root / "sys/fs/cgroup/memory", group, of_v1, least);
  }
  return least;
}

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace wmtp
