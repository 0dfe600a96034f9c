// The process's CPU allocator for tensors, which keeps freed blocks for the next request, and what is counted of all
// tensors' memory.
//
// glibc gives large blocks back to the system on every free and pays for fresh zeroed pages on the next allocation;
// keeping them is worth 9 to 29% of a step. Every tensor's bytes are counted under the category of the innermost
// MemoryScope of the thread that allocated them, until they are freed, by whatever thread. A phase is a part of what
// the process does: the most bytes that were live at one moment of it are known, and what they were. Bytes are those
// that were asked for; what an allocator keeps for later requests is no tensor, and in no count.
#pragma once

#include <cstdint>
#include <string>

#include "engine/memory/memory_stats.hpp"

namespace wmtp {

/// What this thread allocates while the scope lives belongs to `category`.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;

 private:
  MemoryCategory previous_;
};

/// The process is in this phase while the scope lives, and in the one before it afterwards. Other threads' allocations
/// count to it too: Gloo's threads work for the phase that waits for them. [training thread]
class MemoryPhase {
 public:
  explicit MemoryPhase(const std::string& name);
  ~MemoryPhase();
  MemoryPhase(const MemoryPhase&) = delete;

 private:
  std::string previous_;
};

/// Makes it LibTorch's CPU allocator. [before the first tensor] Later calls do nothing.
void install_allocator();
/// From here on it is a device's memory that is counted, not the host's. [before the first tensor]
void count_device_memory();
/// A block of that device: counted under the calling thread's category until it is freed. [any thread]
void device_block_allocated(const void* address, int64_t bytes);
void device_block_freed(const void* address);

MemoryUsage memory_usage();
void reset_memory_peak();

/// Highest resident memory of this process so far, bytes.
int64_t peak_resident_bytes();
int64_t resident_bytes();
/// What was resident as the allocator was installed: the program and its libraries.
int64_t resident_bytes_without_tensors();

}  // namespace wmtp
