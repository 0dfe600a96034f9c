// The memory of the null device: a range of addresses that the host cannot access, and a shadow of it, where copies and
// kernels really read and write. An access of the host to the range ends the process with status 97 and a stack trace.
#pragma once

#include <cstddef>

namespace null_cuda {

/// nullptr when the device has not so much left. Filled with NaN while kernels compute. [any thread]
void* allocate(size_t bytes);
/// False for an address that allocate did not return.
bool release(void* address);

size_t capacity();
size_t in_use();

bool on_device(const void* address);
/// The address in the shadow; of host memory the address itself.
char* shadow(const void* address);

void* allocate_pinned(size_t bytes);
void release_pinned(void* address);
/// Whether the host memory at `address` is pinned, so that a copy does not wait.
bool is_pinned(const void* address);

}  // namespace null_cuda
