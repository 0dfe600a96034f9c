#include "eval/confinement.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/error.hpp"

namespace wmtp {
namespace {

constexpr int64_t most_open_files = 64;

#if defined(__x86_64__)
constexpr uint32_t architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t architecture = AUDIT_ARCH_AARCH64;
#endif

/// Numbers that both architectures have, then those of x86-64 alone. What is not listed is allowed: a program needs
/// hundreds of calls, and Landlock and the limits hold what these do not.
constexpr uint32_t forbidden[] = {
    // network
    __NR_socket,
    __NR_socketpair,
    __NR_connect,
    __NR_bind,
    __NR_listen,
    __NR_accept,
    __NR_accept4,
    __NR_sendto,
    __NR_sendmsg,
    __NR_sendmmsg,
    __NR_io_uring_setup,
    __NR_io_uring_enter,
    __NR_io_uring_register,
    // other processes
    __NR_kill,
    __NR_tkill,
    __NR_tgkill,
    __NR_rt_sigqueueinfo,
    __NR_rt_tgsigqueueinfo,
    __NR_pidfd_open,
    __NR_pidfd_send_signal,
    __NR_pidfd_getfd,
    __NR_ptrace,
    __NR_process_vm_readv,
    __NR_process_vm_writev,
    __NR_setpriority,
    __NR_sched_setaffinity,
    __NR_sched_setscheduler,
    __NR_sched_setparam,
    __NR_sched_setattr,
    __NR_ioprio_set,
    // what Landlock does not hold of files
    __NR_fchmod,
    __NR_fchmodat,
    __NR_fchown,
    __NR_fchownat,
    __NR_setxattr,
    __NR_lsetxattr,
    __NR_fsetxattr,
    __NR_removexattr,
    __NR_lremovexattr,
    __NR_fremovexattr,
    __NR_utimensat,
    __NR_truncate,
    __NR_name_to_handle_at,
    __NR_open_by_handle_at,
    // the machine
    __NR_mount,
    __NR_umount2,
    __NR_unshare,
    __NR_setns,
    __NR_chroot,
    __NR_pivot_root,
    __NR_bpf,
    __NR_perf_event_open,
    __NR_userfaultfd,
    __NR_keyctl,
    __NR_add_key,
    __NR_request_key,
    __NR_reboot,
    __NR_swapon,
    __NR_swapoff,
    __NR_init_module,
    __NR_finit_module,
    __NR_delete_module,
    __NR_kexec_load,
    __NR_setrlimit,
    __NR_shmget,
    __NR_msgget,
    __NR_semget,
#if defined(__x86_64__)
    __NR_fork,
    __NR_vfork,
    __NR_chmod,
    __NR_chown,
    __NR_lchown,
    __NR_utime,
    __NR_utimes,
    __NR_futimesat,
#endif
};

/// Bits that the headers of older kernels lack.
constexpr uint64_t landlock_truncate = 1ULL << 14, landlock_ioctl_of_devices = 1ULL << 15;

/// A program of the kernel's packet filter over the number and the arguments of a call.
class Filter {
 public:
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, uint32_t(offset), 0, 0); }
  void keep_bits(uint32_t bits) { add(BPF_ALU | BPF_AND | BPF_K, bits, 0, 0); }
  void answer(uint32_t action) { add(BPF_RET | BPF_K, action, 0, 0); }
  // The next `count` instructions are passed over unless the loaded word is as said.
  void unless_equal_skip(uint32_t value, int count) { add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, uint8_t(count)); }
  void if_equal_skip(uint32_t value, int count) { add(BPF_JMP | BPF_JEQ | BPF_K, value, uint8_t(count), 0); }
  void if_any_bit_skip(uint32_t bits, int count) { add(BPF_JMP | BPF_JSET | BPF_K, bits, uint8_t(count), 0); }
  std::vector<sock_filter> take() { return std::move(code_); }

 private:
  void add(int code, uint32_t value, uint8_t if_true, uint8_t if_false) {
    code_.push_back({uint16_t(code), if_true, if_false, value});
  }
  std::vector<sock_filter> code_;
};

constexpr uint32_t refuse = SECCOMP_RET_ERRNO | EPERM, not_there = SECCOMP_RET_ERRNO | ENOSYS;
constexpr size_t number_of_call = offsetof(seccomp_data, nr);

/// The lower half; both architectures are little-endian.
constexpr size_t argument(int index) { return offsetof(seccomp_data, args) + size_t(index) * sizeof(uint64_t); }

/// Reading with O_TRUNC empties a file, which the first versions of Landlock do not hold.
void refuse_truncating_reads(Filter& filter, uint32_t call, int flags_argument) {
  filter.unless_equal_skip(call, 5);
  filter.load(argument(flags_argument));
  filter.keep_bits(O_TRUNC | O_ACCMODE);
  filter.unless_equal_skip(O_TRUNC | O_RDONLY, 1);
  filter.answer(refuse);
  filter.load(number_of_call);
}

bool limit(int resource, int64_t value) {
  const rlimit both{rlim_t(value), rlim_t(value)};
  return setrlimit(resource, &both) == 0;
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
  const int why = errno;
  if (descriptor >= 0) close(descriptor);
  if (!added) throw Error(ExitStatus::storage, place.string() + ": " + std::strerror(why));
}

}  // namespace

std::vector<sock_filter> system_call_filter() {
  Filter filter;
  filter.load(offsetof(seccomp_data, arch));
  filter.if_equal_skip(architecture, 1);
  filter.answer(SECCOMP_RET_KILL_PROCESS);  // numbers of another architecture mean other calls
  filter.load(number_of_call);
  filter.unless_equal_skip(__NR_clone, 4);
  filter.load(argument(0));
  filter.if_any_bit_skip(CLONE_THREAD, 1);
  filter.answer(refuse);
  filter.answer(SECCOMP_RET_ALLOW);
  filter.unless_equal_skip(__NR_prlimit64, 6);  // reading a limit is allowed, setting one is not
  filter.load(argument(2));
  filter.unless_equal_skip(0, 3);
  filter.load(argument(2) + sizeof(uint32_t));
  filter.unless_equal_skip(0, 1);
  filter.answer(SECCOMP_RET_ALLOW);
  filter.answer(refuse);
  for (const uint32_t call : {uint32_t(__NR_clone3), uint32_t(__NR_openat2)}) {
    filter.unless_equal_skip(call, 1);  // their arguments cannot be looked into; libraries then take the older call
    filter.answer(not_there);
  }
  refuse_truncating_reads(filter, __NR_openat, 2);
#if defined(__x86_64__)
  refuse_truncating_reads(filter, __NR_open, 1);
#endif
  for (const uint32_t call : forbidden) {
    filter.unless_equal_skip(call, 1);
    filter.answer(refuse);
  }
  filter.answer(SECCOMP_RET_ALLOW);
  return filter.take();
}

int rules_for_writing_below(const std::filesystem::path& folder) {
  const long version = syscall(__NR_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1)
    throw Error(
        ExitStatus::usage,
        std::string("this kernel has no Landlock (") + std::strerror(errno) +
            "): a program under test could write anywhere; wanted Linux 5.13 or newer with landlock in its list "
            "of security modules");
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = writing(version);
  const int rules = int(syscall(__NR_landlock_create_ruleset, &attributes, sizeof(attributes.handled_access_fs), 0));
  if (rules < 0) throw Error(ExitStatus::storage, std::string("Landlock: ") + std::strerror(errno));
  try {
    allow(rules, folder, attributes.handled_access_fs);
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
         limit(RLIMIT_NOFILE, most_open_files) && limit(RLIMIT_CORE, 0) && drop_capabilities() &&
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(__NR_landlock_restrict_self, rules, 0) == 0 &&
         syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

}  // namespace wmtp
