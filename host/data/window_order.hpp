// The order of windows: a function of (seed, position), so that the content of a step does not depend on the number of
// ranks or on accumulation, and the state to resume from is one number.
#pragma once

#include <cstdint>

#include "experiment/experiment.hpp"

namespace wmtp {

/// Positions p = 0, 1, 2, … count over the whole run; the epoch is p / count. Sequential: window p % count.
/// Shuffled: a keyed permutation of 0..count-1 for each epoch (a Feistel network with cycle walking: no memory, any
/// count).
class WindowOrder {
 public:
  WindowOrder(int64_t seed, int64_t count, DataOrder order);
  int64_t window(int64_t position) const;

 private:
  int64_t seed_, count_;
  bool shuffled_;
};

/// Position of sequence `b` of rank `r` in a micro-batch that begins at position `first` over all ranks.
inline int64_t sequence_position(int64_t first, int64_t r, int64_t batch_size, int64_t b) {
  return first + r * batch_size + b;
}

}  // namespace wmtp
