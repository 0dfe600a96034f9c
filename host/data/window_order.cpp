// The permutation of an epoch: a balanced Feistel network over the smallest even number of bits that represents `count`
// values. It permutes 0..2^bits-1, so a result of `count` or more is permuted again until it is smaller (cycle walking:
// fewer than four iterations on average, since 2^bits < 4 * count). Every round is invertible, so the positions of one
// epoch do not collide.
#include "data/window_order.hpp"

#include "base/random.hpp"

namespace wmtp {

namespace {

constexpr uint64_t num_rounds = 8;

uint64_t feistel(uint64_t value, int half_bits, uint64_t key) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits, right = value & mask;
  for (uint64_t round = 0; round < num_rounds; ++round) {
    const uint64_t next = left ^ (hash64(key + round, right) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

WindowOrder::WindowOrder(int64_t seed, int64_t count, DataOrder order)
    : seed_(seed), count_(count), shuffled_(order == DataOrder::shuffled) {}

int64_t WindowOrder::window(int64_t position) const {
  const int64_t within = position % count_;
  if (!shuffled_) return within;
  const uint64_t key = hash64(uint64_t(seed_), uint64_t(position / count_));
  const uint64_t count = uint64_t(count_);
  int half_bits = 1;
  while (half_bits < 32 && uint64_t{1} << 2 * half_bits < count) ++half_bits;
  uint64_t value = uint64_t(within);
  do {
    value = feistel(value, half_bits, key);
  } while (value >= count);
  return int64_t(value);
}

}  // namespace wmtp
