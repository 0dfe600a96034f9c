// What a process did with the null device, counted by name. At its end NULL_CUDA_REPORT/PID.json has
//   launches     of kernels and of work that libraries launch, by name
//   syncs        waits of the host for the device, by name
//   copies       "host_to_device", "device_to_host", …, with " pageable" where the host's memory is not pinned, and
//                " beside" where the stream is not the default one
//   allocations  calls of cudaMalloc; peak_bytes
//   batches      the counts above when the device received each copy from pinned memory: the batches of the steps
//   races        texts; num_races
// [any thread]
#pragma once

#include <string>

namespace null_cuda {

void count_launch(const std::string& kernel);
void count_sync(const char* call);
void count_copy(const void* to, const void* from, bool beside);
void count_allocation();

/// Name of the last kernel that was launched.
std::string last_launch();

/// Whether the device has stopped (Settings::hangs_at, or a collective without its ranks): launches have no effect,
/// and waits last until the communicator is aborted.
bool hangs();
void start_hang();
void end_hang();
/// Returns when the device does not hang.
void wait_for_device();

void write_report();

}  // namespace null_cuda
