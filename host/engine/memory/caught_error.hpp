// Converts any caught exception to an Error with its exit code.
//
// Out of memory is thrown as c10::OutOfMemoryError by a device's allocator and as std::bad_alloc by the host's; autograd
// keeps the type across its threads.
#pragma once

#include "base/error.hpp"

namespace wmtp {

/// The exception that is being handled. An Error is returned unchanged. Out of memory becomes Error(device_memory), with
/// the requested and free amounts if the allocator reports them, and with what to change. Anything else becomes
/// Error(bug). [inside a catch block]
Error caught_error();

}  // namespace wmtp
