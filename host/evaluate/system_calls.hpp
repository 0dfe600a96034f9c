// The system calls that a program under test may make: those that Python needs to compute, to use threads, and to read
// and write files. All others are refused, calls that a later kernel adds among them.
//
// Of ioctl, fcntl and prctl only the named requests are allowed; of clone only threads; of mmap no shared mapping of a
// file, through which bytes are written that nobody counts; of mkdir and umask no modes that keep the host out of a
// folder; of prlimit64 only reading. Linux on x86-64 and AArch64.
#pragma once

#include <linux/filter.h>

#include <vector>

namespace wmtp {

/// A seccomp filter. It answers EPERM to what it refuses, and ENOSYS to calls for which libraries have an older one.
std::vector<sock_filter> system_call_filter();

}  // namespace wmtp
