#include "evaluate/confinement.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.hpp"

namespace wmtp {
namespace {

constexpr int64_t max_open_files = 64;

/// Bits missing in the headers of older kernels.
constexpr uint64_t landlock_truncate = 1ULL << 14, landlock_ioctl_of_devices = 1ULL << 15;

/// At most the limit that is already set, which only root may raise.
bool limit(int resource, int64_t value) {
  rlimit set{};
  if (getrlimit(__rlimit_resource_t(resource), &set) != 0) return false;
  const rlim_t both = std::min(rlim_t(value), set.rlim_max);
  set = {both, both};
  return setrlimit(resource, &set) == 0;
}

bool drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2]{};
  return syscall(SYS_capset, &header, none) == 0;
}

uint64_t writing(long version) {
  uint64_t access = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                    LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                    LANDLOCK_ACCESS_FS_MAKE_SYM;
  if (version >= 2) access |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) access |= landlock_truncate;
  if (version >= 5) access |= landlock_ioctl_of_devices;
  return access;
}

void allow(int rules, const std::filesystem::path& place, uint64_t access) {
  const int descriptor = open(place.c_str(), O_PATH | O_CLOEXEC);
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access;
  rule.parent_fd = descriptor;
  const bool added =
      descriptor >= 0 && syscall(__NR_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  const int cause = errno;
  if (descriptor >= 0) close(descriptor);
  if (!added) throw Error(ExitStatus::storage, place.string() + ": " + std::strerror(cause));
}

}  // namespace

int landlock_rules(const std::filesystem::path& folder) {
  const long version = syscall(__NR_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1)
    throw Error(ExitStatus::usage,
                std::string("this kernel has no Landlock (") + std::strerror(errno) +
                    "): a program under test could write anywhere; use Linux 5.13 or newer with the landlock security "
                    "module enabled");
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = writing(version);
  const int rules = int(syscall(__NR_landlock_create_ruleset, &attributes, sizeof(attributes.handled_access_fs), 0));
  if (rules < 0) throw Error(ExitStatus::storage, std::string("Landlock: ") + std::strerror(errno));
  try {
    if (!folder.empty()) allow(rules, folder, attributes.handled_access_fs);
    allow(rules, "/dev/null", LANDLOCK_ACCESS_FS_WRITE_FILE | (attributes.handled_access_fs & landlock_truncate));
  } catch (...) {
    close(rules);
    throw;
  }
  return rules;
}

bool confine(int rules, const std::vector<sock_filter>& filter, int64_t memory_bytes, int64_t file_bytes,
             int64_t cpu_seconds) {
  const sock_fprog program{uint16_t(filter.size()), const_cast<sock_filter*>(filter.data())};
  return limit(RLIMIT_AS, memory_bytes) && limit(RLIMIT_FSIZE, file_bytes) && limit(RLIMIT_CPU, cpu_seconds) &&
         limit(RLIMIT_NOFILE, max_open_files) && limit(RLIMIT_CORE, 0) && drop_capabilities() &&
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(__NR_landlock_restrict_self, rules, 0) == 0 &&
         syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

}  // namespace wmtp
