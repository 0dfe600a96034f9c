// The process's CPU allocator for tensors, which keeps freed blocks for later requests, and the count of all tensors'
// memory.
//
// glibc returns large blocks to the system on every free and pays for zeroed pages on the next allocation; keeping them
// saves 9 to 29% of a step. A tensor's bytes count under the category of the innermost MemoryScope of the allocating
// thread until they are freed, by any thread. Phases divide the process's work; for each, the peak of live bytes is
// known, by category. Counted are requested bytes, not the blocks that an allocator keeps for later requests.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/memory/memory_stats.hpp"

namespace wmtp {

/// This thread's allocations count under `category` during the scope's lifetime. A device's also those of threads without
/// a scope, if this is the training thread: autograd allocates in a thread of the device.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;

 private:
  MemoryCategory previous_;
  bool is_outermost_;
};

/// The process is in this phase during the scope's lifetime, and in the previous one afterwards. Other threads'
/// allocations count to it too: Gloo's threads work for the phase that waits for them. [training thread]
class MemoryPhase {
 public:
  explicit MemoryPhase(const std::string& name);
  ~MemoryPhase();
  MemoryPhase(const MemoryPhase&) = delete;

 private:
  std::string previous_;
};

/// Installs it as LibTorch's CPU allocator. Later calls do nothing. [training thread, before the first tensor]
void install_allocator();
/// From now on the device's memory is counted instead of the host's. [before the first tensor]
void count_device_memory();
/// A block of that device, counted under the calling thread's category until it is freed. [any thread]
void device_block_allocated(const void* address, int64_t bytes);
void device_block_freed(const void* address);
/// What the device has in use since its allocator took or returned memory. [any thread]
void device_memory_changed(const DeviceMemory& now);

MemoryUsage memory_usage();
void reset_memory_peak();

/// Detects that a run needs more memory than it last reported, so that only relevant rows are logged.
class MemoryWatch {
 public:
  /// Whether some phase is new, or its peak has grown by a twentieth since this last returned true for it.
  bool grew();

 private:
  std::map<std::string, int64_t> reported_;  ///< by phase: bytes of its tensors, and of what the device's allocator holds
};

/// Highest resident memory of this process so far, bytes.
int64_t peak_resident_bytes();
int64_t resident_bytes();
/// Resident when the allocator was installed: the program and its libraries.
int64_t resident_bytes_without_tensors();

}  // namespace wmtp
