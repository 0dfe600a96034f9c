#include "core/model/category.hpp"

namespace wmtp {

const char* to_string(MemoryCategory category) {
  constexpr const char* names[] = {"parameters", "gathered",      "gradients",  "optimizer", "activations",
                                   "logits",     "communication", "checkpoint", "other"};
  return names[int(category)];
}

}  // namespace wmtp
