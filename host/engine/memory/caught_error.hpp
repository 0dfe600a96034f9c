// What a caught exception means to the user: an Error with its exit code. [engine]
//
// Memory that is used up is thrown under three types: c10::OutOfMemoryError by a device's allocator, std::bad_alloc by
// the host's, also through autograd, which keeps the type across its threads.
#pragma once

#include "base/error.hpp"

namespace wmtp {

/// The exception that is being handled, whatever its type. An Error stays what it is. Used-up memory becomes
/// Error(device_memory), with what was asked for and what is free where the allocator says it, and with what to change.
/// Anything else becomes Error(bug). [inside a catch block]
Error caught_error();

}  // namespace wmtp
