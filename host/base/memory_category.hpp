// Categories of memory use.
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

constexpr const char* to_string(MemoryCategory category) {
  constexpr const char* names[] = {"parameters", "gathered",      "gradients",  "optimizer", "activations",
                                   "logits",     "communication", "checkpoint", "other"};
  return names[int(category)];
}

/// Bytes live at one moment.
struct MemorySnapshot {
  std::array<int64_t, num_memory_categories> bytes{};
  int64_t total = 0;  ///< their sum
};

}  // namespace wmtp
