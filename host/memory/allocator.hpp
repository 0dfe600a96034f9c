// The process's CPU allocator for tensors: it keeps freed blocks for the next request, and it is the accountant.
//
// glibc gives large blocks back to the system on every free and pays for fresh zeroed pages on the next allocation;
// keeping them is worth 9 to 29% of a step. Every tensor's bytes are counted under the category of the innermost
// MemoryScope of the thread that allocated them, until they are freed, by whatever thread.
#pragma once

#include <array>
#include <cstdint>

namespace wmtp {

enum class MemoryCategory {
  parameters,
  gathered,
  gradients,
  optimizer,
  activations,
  logits,
  communication,
  checkpoint,
  other
};
inline constexpr int num_memory_categories = 9;
const char* to_string(MemoryCategory);

/// What this thread allocates while the scope lives belongs to `category`.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;

 private:
  MemoryCategory previous_;
};

struct MemoryUsage {
  std::array<int64_t, num_memory_categories> live{};  ///< bytes now
  std::array<int64_t, num_memory_categories> peak{};  ///< highest of each category by itself since reset_peak
  int64_t live_total = 0;
  int64_t peak_total = 0;     ///< highest of the sum
  int64_t largest_block = 0;  ///< largest single request since reset_peak
};

/// Makes it LibTorch's CPU allocator. [before the first tensor] Later calls do nothing.
void install_allocator();
MemoryUsage memory_usage();
void reset_memory_peak();

/// Highest resident memory of this process so far, bytes.
int64_t peak_resident_bytes();
int64_t resident_bytes();

}  // namespace wmtp
