// Counts a process's use of the null device, by name. When the process ends, NULL_CUDA_REPORT/PID.json contains
//   launches     of kernels and of libraries' work, by name
//   syncs        waits of the host for the device, by name
//   copies       "host_to_device", "device_to_host", …, with " pageable" if the host's memory is not pinned, and
//                " beside" if the stream is not the default one
//   allocations  calls of cudaMalloc; peak_bytes
//   batches      the counts above at each copy from pinned memory to the device, which are the batches of the steps
//   races        descriptions; num_races
// [any thread]
#pragma once

#include <string>

namespace null_cuda {

void count_launch(const std::string& kernel);
void count_sync(const char* call);
void count_copy(const void* to, const void* from, bool beside);
void count_allocation();

/// Name of the last launched kernel.
std::string last_launch();

/// Whether the device has stopped (Settings::hangs_at, or missing ranks in a collective): launches then have no effect,
/// and waits last until the communicator is aborted.
bool hangs();
void start_hang();
void end_hang();
/// An event that is recorded while the device has stopped is not reached before it goes on.
void event_recorded(const void* event);
bool is_unreached(const void* event);
/// Returns once the device does not hang.
void wait_for_device();

void write_report();

}  // namespace null_cuda
