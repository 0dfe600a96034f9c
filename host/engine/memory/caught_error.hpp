// Converts any caught exception to an Error with its exit code.
//
// Out of memory is a c10::OutOfMemoryError from a device's allocator and a std::bad_alloc from the host's; autograd
// preserves the type across its threads.
#pragma once

#include "base/error.hpp"

namespace wmtp {

/// The exception being handled. An Error is returned unchanged. Out of memory becomes Error(device_memory), with the
/// requested and free amounts if the allocator reports them, and with what to change. Anything else becomes Error(bug).
/// [inside a catch block]
Error caught_error();

}  // namespace wmtp
