// The process's CPU allocator for tensors: it keeps freed blocks for the next request, and it is the accountant.
//
// glibc gives large blocks back to the system on every free and pays for fresh zeroed pages on the next allocation;
// keeping them is worth 9 to 29% of a step. Every tensor's bytes are counted under the category of the innermost
// MemoryScope of the thread that allocated them, until they are freed, by whatever thread. A phase is a part of what
// the process does: the most bytes that were live at one moment of it are known, and what they were. Bytes are those
// that were asked for; what the allocator keeps for later requests is no tensor, and in no count.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "memory/category.hpp"

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

struct MemoryUsage {
  std::array<int64_t, num_memory_categories> live{};  ///< bytes now
  std::array<int64_t, num_memory_categories> peak{};  ///< highest of each category by itself since reset_peak
  int64_t live_total = 0;
  int64_t peak_total = 0;     ///< highest of the sum
  int64_t largest_block = 0;  ///< largest single request since reset_peak
  /// The moment of each phase at which most was live, exactly; of the phases that there were since reset_peak. Outside
  /// of every phase it is "other".
  std::map<std::string, MemoryMoment> phases;
};

/// Makes it LibTorch's CPU allocator. [before the first tensor] Later calls do nothing.
void install_allocator();
MemoryUsage memory_usage();
void reset_memory_peak();

/// Highest resident memory of this process so far, bytes.
int64_t peak_resident_bytes();
int64_t resident_bytes();
/// What was resident as the allocator was installed: the program and its libraries.
int64_t resident_bytes_without_tensors();

}  // namespace wmtp
