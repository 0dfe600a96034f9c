// Which window is drawn when: a function of (seed, position) alone, so that the content of a step depends on neither
// ranks nor accumulation, and resuming needs one number. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <string>

namespace wmtp {

/// Position p = 0, 1, 2, … over the whole run; epoch p / count. "sequential": window p % count. "shuffled": a keyed
/// permutation of 0..count-1 for each epoch (a Feistel network with cycle walking: no memory, any count).
class WindowOrder {
 public:
  WindowOrder(int64_t seed, int64_t count, const std::string& order);
  int64_t window(int64_t position) const;

 private:
  int64_t seed_, count_;
  bool shuffled_;
};

/// Position of sequence `b` of rank `r` in a micro-batch of all ranks that begins at position `first`.
inline int64_t position_of(int64_t first, int64_t r, int64_t batch_size, int64_t b) {
  return first + r * batch_size + b;
}

}  // namespace wmtp
