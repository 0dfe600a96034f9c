#include "engine/memory/watch.hpp"

#include "engine/memory/allocator.hpp"

namespace wmtp {

bool MemoryWatch::grew() {
  bool grew = false;
  for (const auto& [phase, moment] : memory_usage().phases) {
    const auto [told, is_new] = told_.try_emplace(phase, 0);
    if (!is_new && moment.total <= told->second + told->second / 20) continue;
    told->second = moment.total;
    grew = true;
  }
  return grew;
}

}  // namespace wmtp
