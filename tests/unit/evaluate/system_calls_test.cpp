// A program under test can neither affect other processes, by any system call, nor exhaust resources.
#include "evaluate/system_calls.hpp"

#include <gtest/gtest.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/files.hpp"
#include "evaluate/sandbox.hpp"
#include "support/landlock.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// `refused(number, arguments…)` makes the call, which must fail for lack of permission.
const std::string calls = R"(
import ctypes, errno, fcntl, mmap, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def refused(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *arguments)
    assert result == -1 and ctypes.get_errno() == errno.EPERM, (number, result, ctypes.get_errno())
def refuses(call, *arguments):
    try: call(*arguments)
    except PermissionError: return
    assert False, call
)";

class SystemCalls : public testing::Test {
 protected:
  void SetUp() override {
    if (!landlock()) GTEST_SKIP() << "this kernel has no Landlock";
  }
  static Judged run(const std::string& program, double seconds = 20) {
    SandboxLimits limits;
    limits.seconds = seconds;
    return Sandbox("python3", limits).run({.program = calls + program});
  }
  static void expect_passed(const std::string& program) { EXPECT_EQ(run(program).message, "") << program; }
  static void expect_ended(const std::string& program, const std::string& message) {
    const Judged judged = run(program, 60);
    EXPECT_EQ(judged.verdict, Verdict::failed) << program;
    EXPECT_EQ(judged.message, message) << program;
    EXPECT_LT(judged.seconds, 30) << program;
  }
  static std::string number(long call) { return std::to_string(call); }
};

TEST_F(SystemCalls, NoneChangesAForeignFile) {
  char name[] = "/tmp/wmtp-foreign-XXXXXX";
  const int descriptor = mkstemp(name);
  ASSERT_GE(descriptor, 0);
  const std::string program = "path = b'" + std::string(name) + R"('
f = os.open(path, os.O_RDONLY)
flags = ctypes.c_long(0x10)
refused(452, -100, path, 0o777, 0)                     # fchmodat2
refused(463, -100, path, 0, b'user.x', None, 0)        # setxattrat
for request in (0x40086602, 0x401c5820, 0x40049409):   # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FICLONE
    refuses(fcntl.ioctl, f, request, flags)
refuses(fcntl.flock, f, fcntl.LOCK_SH)
refuses(fcntl.lockf, f, fcntl.LOCK_SH)
refuses(fcntl.fcntl, f, fcntl.F_SETOWN, os.getppid())
refuses(fcntl.fcntl, f, 1024, 0)                       # F_SETLEASE
refuses(os.chmod, path, 0o777)
refuses(os.fchmod, f, 0o777)
refuses(os.setxattr, path, 'user.x', b'')
refuses(os.utime, path)
refuses(os.link, path, 'mine')
)";
  expect_passed(program);
  struct stat after {};
  ASSERT_EQ(fstat(descriptor, &after), 0);
  EXPECT_EQ(after.st_mode & 07777, 0600u);
  EXPECT_EQ(after.st_nlink, 1u);
  close(descriptor);
  fs::remove(name);
}

TEST_F(SystemCalls, NoneReachesSharedMemorySemaphoresOrQueues) {
  const int memory = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600), semaphore = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600),
            queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
  ASSERT_GE(memory, 0);
  auto* text = static_cast<char*>(shmat(memory, nullptr, 0));
  std::strcpy(text, "untouched");
  std::string program;
  for (const long call : {SYS_shmat, SYS_shmctl, SYS_shmdt, SYS_semctl, SYS_semop, SYS_msgctl, SYS_msgsnd, SYS_msgrcv})
    for (const int one : {memory, semaphore, queue})
      program += "refused(" + number(call) + ", " + std::to_string(one) + ", 0, 0, 0, 0)\n";
  for (const long call : {SYS_shmget, SYS_semget, SYS_msgget, SYS_mq_open})
    program += "refused(" + number(call) + ", 0, 4096, 0o1600, 0)\n";
  expect_passed(program);
  EXPECT_STREQ(text, "untouched");
  shmdt(text);
  EXPECT_EQ(shmctl(memory, IPC_RMID, nullptr), 0) << "it is still there";
  EXPECT_EQ(semctl(semaphore, 0, IPC_RMID), 0);
  EXPECT_EQ(msgctl(queue, IPC_RMID, nullptr), 0);
}

TEST_F(SystemCalls, UnlistedCallsAreRefused) {
  std::string program;
  for (const long call : {SYS_memfd_create, SYS_userfaultfd, SYS_ptrace,    SYS_process_vm_readv, SYS_process_vm_writev,
                          SYS_pidfd_open,   SYS_kill,        SYS_tgkill,    SYS_io_uring_setup,   SYS_socket,
                          SYS_bpf,          SYS_mount,       SYS_unshare,   SYS_setsid,           SYS_personality,
                          SYS_add_key,      SYS_fallocate,   SYS_symlinkat, SYS_mknodat,          SYS_setuid,
                          SYS_execveat,     SYS_splice,      SYS_tee,       SYS_inotify_init1,    999})
    program += "refused(" + number(call) + ", 0, 0, 0, 0, 0)\n";
  expect_passed(program + "refused(" + number(SYS_prctl) + ", 4, 0)  # PR_SET_DUMPABLE hides what it writes\n");
}

TEST_F(SystemCalls, AFileIsNotWrittenThroughAMapping) {
  expect_passed(
      "open('x', 'wb').write(bytes(4096))\nwith open('x', 'r+b') as f: refuses(mmap.mmap, f.fileno(), 4096)\n"
      "assert len(mmap.mmap(-1, 4096)) == 4096\n"
      "with open('x', 'rb') as f: assert len(mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)) == 4096");
}

TEST_F(SystemCalls, NoFolderIsHiddenFromTheHost) {
  expect_passed("refuses(os.mkdir, 'x', 0o300)\nrefuses(os.umask, 0o400)\nos.umask(0o77)\nos.makedirs('y/z')");
}

TEST_F(SystemCalls, TotalUsageIsLimited) {
  const std::string written = "wrote more than 64 MiB in total";
  expect_ended("for i in range(100000): open(f'x{i}', 'wb').write(bytes(1 << 20))", written);
  expect_ended("while True:\n  with open('x', 'wb') as f: f.write(bytes(1 << 20))\n  os.remove('x')", written);
  expect_ended("while True: print('x' * 100000)", written);
  expect_ended("i = 0\nwhile True:\n  i += 1\n  os.mkdir(f'x{i}')", "created more than 1,000 files");
  expect_ended(
      "import threading, time\nthreading.stack_size(65536)\n"
      "while True: threading.Thread(target=time.sleep, args=(60,)).start()",
      "started more than 64 threads");
}

TEST_F(SystemCalls, WritesOfOtherThreadsAreCountedAfterTheFirstHasEnded) {
  expect_ended(
      "import threading\ndef fill():\n  while True:\n    open('x', 'wb').write(bytes(1 << 20))\n"
      "threading.Thread(target=fill).start()\nlibc.syscall(" +
          number(SYS_exit) + ", 0)",
      "wrote more than 64 MiB in total");
}

TEST_F(SystemCalls, LittleIsWrittenBeyondTheLimit) {
  char name[] = "/tmp/wmtp-temporary-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  int64_t most = 0;
  setenv("TMPDIR", name, 1);
  std::jthread looking([&](const std::stop_token& stop) {
    for (; !stop.stop_requested(); usleep(1000)) most = std::max(most, bytes_below(name));
  });
  run("i = 0\nwhile True:\n  i += 1\n  open(f'x{i}', 'wb').write(bytes(1 << 20))");
  looking.request_stop();
  looking.join();
  unsetenv("TMPDIR");
  EXPECT_GT(most, int64_t{16} << 20) << "the look came too late to see anything";
  EXPECT_LT(most, int64_t{512} << 20);
  fs::remove_all(name);
}

}  // namespace
}  // namespace wmtp
