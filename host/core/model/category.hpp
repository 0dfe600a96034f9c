// What bytes are for. Knows no LibTorch.
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

/// Live bytes at one moment.
struct MemoryMoment {
  std::array<int64_t, num_memory_categories> bytes{};
  int64_t total = 0;  ///< their sum
};

}  // namespace wmtp
