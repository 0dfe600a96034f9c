// The system calls that a program under test may make: those that Python needs to compute, to use threads, and to read
// and write files. All others are refused, including those added by later kernels.
//
// ioctl, fcntl and prctl are limited to the named requests; clone to threads; mmap to private mappings, because bytes
// written through a shared mapping of a file are not counted; mkdir and umask to modes that leave the folder accessible
// to the host; prlimit64 to reading. Linux on x86-64 and AArch64.
#pragma once

#include <linux/filter.h>

#include <vector>

namespace wmtp {

/// A seccomp filter: EPERM for refused calls, ENOSYS for calls that libraries can replace by an older one.
std::vector<sock_filter> system_call_filter();

}  // namespace wmtp
