#include "base/machine.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
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

struct CgroupFiles {
  const char *limit, *used, *cache_prefix;
};
constexpr CgroupFiles cgroup_v1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"};
constexpr CgroupFiles cgroup_v2{"memory.max", "memory.current", ""};

/// Lowers `least` to the memory that one group leaves.
void take_memory(const fs::path& folder, const CgroupFiles& files, std::optional<int64_t>& least) {
  const auto limit = number_in(folder / files.limit), used = number_in(folder / files.used);
  if (!limit || !used) return;
  const auto stat = named_numbers_in(folder / "memory.stat");
  int64_t held = *used;
  for (const char* name : {"active_file", "inactive_file"})
    if (const auto cache = stat.find(std::string(files.cache_prefix) + name); cache != stat.end())
      held -= cache->second;
  // The kernel does not update both numbers at once, so the cache may exceed the usage; "no limit" is near INT64_MAX.
  const int64_t left = *limit - std::max<int64_t>(0, held);
  least = std::max<int64_t>(0, least ? std::min(*least, left) : left);
}

using Visit = std::function<void(const fs::path& folder, bool is_v2)>;

/// Calls `visit` with the folders of this process's groups that limit what `controller` controls. A group's limit
/// applies to all groups below it. In a container the path may be the host's, which is not visible there, but the root
/// is.
void visit_cgroups(const fs::path& root, const std::string& controller, const Visit& visit) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/user.slice", "9:memory:/docker/4f"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_v2 = controllers == ",,";
    if (!is_v2 && controllers.find("," + controller + ",") == std::string::npos) continue;
    const fs::path top = is_v2 ? root / "sys/fs/cgroup" : root / "sys/fs/cgroup" / controller;
    for (fs::path at = fs::path(line.substr(second + 1)).relative_path(); !at.empty(); at = at.parent_path())
      visit(top / at, is_v2);
    visit(top, is_v2);
  }
}

/// Cores that one group may use; infinity without a quota. "50000 100000", in v2 also "max 100000".
double cpu_quota(const fs::path& folder, bool is_v2) {
  double quota = 0, period = 0;
  if (is_v2) {
    std::ifstream(folder / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(folder / "cpu.cfs_quota_us") >> quota;
    std::ifstream(folder / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

/// Cores in this thread's affinity mask, whose size the kernel does not tell.
int affinity_cores() {
  constexpr int most = 1 << 20;
  for (int size = CPU_SETSIZE; size <= most; size *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(size), [](cpu_set_t* s) { CPU_FREE(s); });
    const size_t bytes = CPU_ALLOC_SIZE(size);
    if (set && sched_getaffinity(0, bytes, set.get()) == 0) return CPU_COUNT_S(bytes, set.get());
    if (!set || errno != EINVAL) break;  // EINVAL: the machine has more cores than that
  }
  return 1;
}

}  // namespace

std::map<std::string, int64_t> named_numbers_in(const fs::path& file) {
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
  const auto system = named_numbers_in(root / "proc/meminfo");
  if (const auto available = system.find("MemAvailable"); available != system.end()) least = available->second * 1024;
  visit_cgroups(root, "memory",
                [&](const fs::path& folder, bool is_v2) { take_memory(folder, is_v2 ? cgroup_v2 : cgroup_v1, least); });
  return least;
}

std::optional<int64_t> cgroup_pids_limit(const fs::path& root) {
  std::optional<int64_t> least;
  visit_cgroups(root, "pids", [&](const fs::path& folder, bool) {
    if (const auto limit = number_in(folder / "pids.max")) least = std::min(*limit, least.value_or(*limit));
  });
  return least;
}

int usable_cores(const fs::path& root) {
  double cores = affinity_cores();
  visit_cgroups(root, "cpu",
                [&](const fs::path& folder, bool is_v2) { cores = std::min(cores, cpu_quota(folder, is_v2)); });
  return std::max(1, int(cores));
}

}  // namespace wmtp
