#include "evaluate/system_calls.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

namespace wmtp {
namespace {

#if defined(__x86_64__)
constexpr uint32_t architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t architecture = AUDIT_ARCH_AARCH64;
#endif

// Calls of both architectures.
constexpr uint32_t reading_and_writing[] = {
    __NR_read,      __NR_write,    __NR_readv,       __NR_writev,        __NR_pread64,   __NR_pwrite64,
    __NR_preadv,    __NR_pwritev,  __NR_lseek,       __NR_ftruncate,     __NR_fsync,     __NR_fdatasync,
    __NR_fadvise64, __NR_close,    __NR_close_range, __NR_dup,           __NR_dup3,      __NR_pipe2,
    __NR_eventfd2,  __NR_pselect6, __NR_ppoll,       __NR_epoll_create1, __NR_epoll_ctl, __NR_epoll_pwait};
/// Files and folders, which Landlock confines.
constexpr uint32_t files[] = {
    __NR_fstat,      __NR_newfstatat, __NR_statx,     __NR_statfs,    __NR_fstatfs,   __NR_faccessat,  __NR_faccessat2,
    __NR_getdents64, __NR_readlinkat, __NR_getcwd,    __NR_chdir,     __NR_fchdir,    __NR_unlinkat,   __NR_renameat,
    __NR_renameat2,  __NR_getxattr,   __NR_lgetxattr, __NR_fgetxattr, __NR_listxattr, __NR_llistxattr, __NR_flistxattr};
constexpr uint32_t memory[] = {__NR_brk, __NR_munmap, __NR_mremap, __NR_mprotect, __NR_madvise};
constexpr uint32_t threads[] = {__NR_futex, __NR_set_robust_list, __NR_get_robust_list, __NR_set_tid_address,
                                __NR_rseq,  __NR_membarrier};
constexpr uint32_t scheduling[] = {__NR_sched_yield,
                                   __NR_sched_getaffinity,
                                   __NR_sched_getparam,
                                   __NR_sched_getscheduler,
                                   __NR_sched_get_priority_max,
                                   __NR_sched_get_priority_min,
                                   __NR_getcpu};
/// The process's own signals, time and randomness.
constexpr uint32_t signals_and_time[] = {
    __NR_rt_sigaction,    __NR_rt_sigprocmask,  __NR_rt_sigreturn,    __NR_rt_sigpending, __NR_rt_sigsuspend,
    __NR_rt_sigtimedwait, __NR_sigaltstack,     __NR_restart_syscall, __NR_getitimer,     __NR_setitimer,
    __NR_nanosleep,       __NR_clock_nanosleep, __NR_clock_gettime,   __NR_clock_getres,  __NR_gettimeofday,
    __NR_times,           __NR_getrandom};
constexpr uint32_t identity_and_exit[] = {
    __NR_getpid,      __NR_getppid,   __NR_gettid,    __NR_getpgid,   __NR_getsid,    __NR_getuid,
    __NR_geteuid,     __NR_getgid,    __NR_getegid,   __NR_getresuid, __NR_getresgid, __NR_getgroups,
    __NR_getpriority, __NR_getrlimit, __NR_getrusage, __NR_uname,     __NR_sysinfo,   __NR_capget,
    __NR_wait4,       __NR_waitid,    __NR_execve,    __NR_exit,      __NR_exit_group};
#if defined(__x86_64__)
constexpr uint32_t of_x86_64[] = {__NR_stat,   __NR_lstat,   __NR_access,     __NR_readlink, __NR_rmdir,
                                  __NR_unlink, __NR_rename,  __NR_getdents,   __NR_dup2,     __NR_pipe,
                                  __NR_select, __NR_poll,    __NR_epoll_wait, __NR_alarm,    __NR_pause,
                                  __NR_time,   __NR_getpgrp, __NR_arch_prctl};
#else
constexpr std::span<const uint32_t> of_x86_64;
#endif

constexpr std::span<const uint32_t> allowed[] = {
    reading_and_writing, files, memory, threads, scheduling, signals_and_time, identity_and_exit, of_x86_64};

/// A BPF program on the number and the arguments of a call.
class Filter {
 public:
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, uint32_t(offset), 0, 0); }
  void keep_bits(uint32_t bits) { add(BPF_ALU | BPF_AND | BPF_K, bits, 0, 0); }
  void answer(uint32_t action) { add(BPF_RET | BPF_K, action, 0, 0); }
  // Skips the next `count` instructions unless the loaded word equals `value`.
  void unless_equal_skip(uint32_t value, size_t count) { add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, uint8_t(count)); }
  void if_equal_skip(uint32_t value, size_t count) { add(BPF_JMP | BPF_JEQ | BPF_K, value, uint8_t(count), 0); }
  std::vector<sock_filter> take() { return std::move(code_); }

 private:
  void add(int code, uint32_t value, uint8_t if_true, uint8_t if_false) {
    code_.push_back({uint16_t(code), if_true, if_false, value});
  }
  std::vector<sock_filter> code_;
};

constexpr uint32_t allow = SECCOMP_RET_ALLOW, refuse = SECCOMP_RET_ERRNO | EPERM,
                   not_there = SECCOMP_RET_ERRNO | ENOSYS;
constexpr size_t number_of_call = offsetof(seccomp_data, nr);

/// The lower half; both architectures are little-endian.
constexpr size_t argument(int index) { return offsetof(seccomp_data, args) + size_t(index) * sizeof(uint64_t); }

/// `if_equal` if the bits of `mask` in the argument equal `value`, else `otherwise`.
void answer_by_bits(Filter& filter, uint32_t call, int index, uint32_t mask, uint32_t value, uint32_t if_equal,
                    uint32_t otherwise) {
  filter.unless_equal_skip(call, 5);
  filter.load(argument(index));
  filter.keep_bits(mask);
  filter.unless_equal_skip(value, 1);
  filter.answer(if_equal);
  filter.answer(otherwise);
}

/// Landlock restricts opening for writing, but its first versions do not restrict O_TRUNC with O_RDONLY, which empties
/// a file.
void allow_opening(Filter& filter, uint32_t call, int flags_argument) {
  answer_by_bits(filter, call, flags_argument, O_TRUNC | O_ACCMODE, O_TRUNC | O_RDONLY, refuse, allow);
}

/// Only modes with which the host can list and remove the folder.
void allow_open_folders(Filter& filter, uint32_t call, int mode_argument) {
  answer_by_bits(filter, call, mode_argument, S_IRWXU, S_IRWXU, allow, refuse);
}

void allow_requests(Filter& filter, uint32_t call, int request_argument, std::initializer_list<uint32_t> requests) {
  filter.unless_equal_skip(call, 2 + 2 * requests.size());
  filter.load(argument(request_argument));
  for (const uint32_t request : requests) {
    filter.unless_equal_skip(request, 1);
    filter.answer(allow);
  }
  filter.answer(refuse);
}

void allow_reading_limits(Filter& filter) {
  constexpr int new_limit = 2;
  filter.unless_equal_skip(__NR_prlimit64, 6);
  filter.load(argument(new_limit));
  filter.unless_equal_skip(0, 3);
  filter.load(argument(new_limit) + sizeof(uint32_t));
  filter.unless_equal_skip(0, 1);
  filter.answer(allow);
  filter.answer(refuse);
}

}  // namespace

std::vector<sock_filter> system_call_filter() {
  Filter filter;
  filter.load(offsetof(seccomp_data, arch));
  filter.if_equal_skip(architecture, 1);
  filter.answer(SECCOMP_RET_KILL_PROCESS);  // numbers of another architecture refer to other calls
  filter.load(number_of_call);
  for (const std::span<const uint32_t> calls : allowed) {
    for (const uint32_t call : calls) {
      filter.unless_equal_skip(call, 1);
      filter.answer(allow);
    }
  }
  allow_opening(filter, __NR_openat, 2);
  allow_open_folders(filter, __NR_mkdirat, 2);
#if defined(__x86_64__)
  allow_opening(filter, __NR_open, 1);
  allow_open_folders(filter, __NR_mkdir, 1);
#endif
  answer_by_bits(filter, __NR_umask, 0, S_IRWXU, 0, allow, refuse);
  answer_by_bits(filter, __NR_mmap, 3, MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED, refuse, allow);
  answer_by_bits(filter, __NR_clone, 0, CLONE_THREAD, 0, refuse, allow);
  allow_reading_limits(filter);
  allow_requests(filter, __NR_ioctl, 1, {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX});
  allow_requests(filter, __NR_fcntl, 1, {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL});
  allow_requests(filter, __NR_prctl, 0, {PR_GET_NAME, PR_SET_NAME, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS});
  // Libraries then fall back to older calls, whose arguments a filter can read or whose bytes are counted.
  for (const uint32_t call : {__NR_clone3, __NR_openat2, __NR_sendfile, __NR_copy_file_range}) {
    filter.unless_equal_skip(call, 1);
    filter.answer(not_there);
  }
  filter.answer(refuse);
  return filter.take();
}

}  // namespace wmtp
