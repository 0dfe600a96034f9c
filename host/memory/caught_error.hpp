// Converts any caught exception to an Error with its exit code.
//
// Out of memory is a c10::OutOfMemoryError from a device's allocator, a std::bad_alloc from the host's and a c10::Error
// from LibTorch's own for the CPU; autograd preserves the type across its threads.
#pragma once

#include <string>

#include "base/error.hpp"

namespace wmtp {

/// The exception being handled. An Error is returned unchanged. Out of memory becomes Error(device_memory), with the
/// requested and free amounts if the allocator reports them, and with what to change. An error of the system becomes
/// Error(storage) that names the limit (base/system_limits.hpp), anything else Error(bug).
/// [inside a catch block]
Error caught_error();

/// Rethrows the exception being handled. If the CPU's memory did not suffice, as Error(device_memory): "out of memory
/// on the CPU DOING; ADVICE", for work to which the advice about training does not apply. [inside a catch block]
[[noreturn]] void rethrow_from(const std::string& doing, const std::string& advice);

}  // namespace wmtp
