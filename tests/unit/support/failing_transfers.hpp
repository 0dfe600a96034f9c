// Transfers that fail as those of a damaged disk do: the program's own pread and pwrite are found before the system's.
// [in one file of a program]
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace wmtp::test {

/// How many transfers succeed before one fails; negative: none fails.
inline std::atomic<int> reads_left = -1, writes_left = -1;
/// 0: a failing transfer is one of no bytes.
inline std::atomic<int> failure_code = EIO;

inline bool fails(std::atomic<int>& left) { return left >= 0 && left-- == 0; }

inline ssize_t failed() {
  errno = failure_code;
  return failure_code == 0 ? 0 : -1;
}

}  // namespace wmtp::test

extern "C" __attribute__((visibility("default"))) ssize_t pread(int file, void* bytes, size_t count, off_t at) {
  if (!wmtp::test::fails(wmtp::test::reads_left)) return ssize_t(syscall(SYS_pread64, file, bytes, count, at));
  return wmtp::test::failed();
}

extern "C" __attribute__((visibility("default"))) ssize_t pwrite(int file, const void* bytes, size_t count, off_t at) {
  if (!wmtp::test::fails(wmtp::test::writes_left)) return ssize_t(syscall(SYS_pwrite64, file, bytes, count, at));
  return wmtp::test::failed();
}
