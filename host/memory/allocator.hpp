// The process's CPU allocator for tensors, which caches freed blocks, and accounting of all tensors' memory.
//
// glibc returns large blocks to the system on every free and pays for zeroed pages on the next allocation; caching them
// saves 9 to 29% of a step. A tensor's bytes count under the category of the innermost MemoryScope of the allocating
// thread until they are freed by any thread. Phases divide the process's work; the peak of live bytes is recorded for
// each, by category. Requested bytes are counted, not the blocks that an allocator caches.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "memory/memory_stats.hpp"

namespace wmtp {

/// This thread's allocations count under `category` during the scope's lifetime. If this is the training thread, so do
/// device allocations of threads without a scope, because autograd allocates in a thread of the device.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;

 private:
  MemoryCategory previous_;
  bool is_outermost_;
};

/// This thread's allocations are not counted during the scope's lifetime: scratch memory of a library, whose size
/// depends on the processor.
class UncountedScope {
 public:
  UncountedScope();
  ~UncountedScope();
  UncountedScope(const UncountedScope&) = delete;

 private:
  bool previous_;
};
/// Whether a block of this thread counts: outside every UncountedScope, and larger than one number, because LibTorch
/// makes tensors of one number for scalar arguments, depending on their values.
bool is_counted(size_t bytes);

/// The process is in this phase during the scope's lifetime, and in the previous one afterwards. Allocations of other
/// threads also count to it: Gloo's threads work for the phase that waits for them. [training thread]
class MemoryPhase {
 public:
  explicit MemoryPhase(const std::string& name);
  ~MemoryPhase();
  MemoryPhase(const MemoryPhase&) = delete;

 private:
  std::string previous_;
};

/// Installs it as LibTorch's CPU allocator. Further calls do nothing. [training thread, before the first tensor]
void install_allocator();
/// Counts a device's memory instead of the host's from now on, or the host's again. [while there is no tensor]
void count_device_memory(bool counts = true);
/// Counts a block of the device under the calling thread's category until it is freed. [any thread]
void device_block_allocated(const void* address, int64_t bytes);
void device_block_freed(const void* address);
/// What the device has in use since its allocator took or returned memory. [any thread]
void device_memory_changed(const DeviceMemory& now);

MemoryUsage memory_usage();
void reset_memory_peak();

/// Detects that a run needs more memory than last reported, so that only relevant rows are logged.
class MemoryWatch {
 public:
  /// Whether a phase is new, or its peak has grown by 5% since this last returned true for it.
  bool grew();

 private:
  std::map<std::string, int64_t>
      reported_;  ///< by phase: bytes of its tensors, and of what the device's allocator holds
};

/// Peak resident memory of this process so far, in bytes.
int64_t peak_resident_bytes();
int64_t resident_bytes();
/// Resident memory when the allocator was installed: the program and its libraries.
int64_t resident_bytes_without_tensors();

}  // namespace wmtp
