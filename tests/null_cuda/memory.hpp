// The memory of the null device: a range of addresses that the host cannot access, and a shadow of it that copies and
// kernels actually read and write. If the host accesses the range, the process ends with status 97 and a stack trace.
#pragma once

#include <cstddef>

namespace null_cuda {

/// nullptr if the device has less left. Filled with NaN if kernels compute. [any thread]
void* allocate(size_t bytes);
/// False for an address that allocate did not return.
bool release(void* address);

size_t capacity();
size_t in_use();

bool on_device(const void* address);
/// The address in the shadow; for host memory the address itself.
char* shadow(const void* address);

void* allocate_pinned(size_t bytes);
void release_pinned(void* address);
/// Whether the host memory at `address` is pinned, so that copies do not block.
bool is_pinned(const void* address);

}  // namespace null_cuda
