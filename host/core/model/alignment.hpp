// How a group's flat storage is padded and cut; `plan` counts with the same numbers. Knows no LibTorch.
#pragma once

#include <cstdint>

#include "base/round_up.hpp"
#include "core/experiment/experiment.hpp"

namespace wmtp {

/// Elements that each parameter of a group begins at a multiple of: 256 bytes in fp32, 128 in bf16.
inline constexpr int64_t alignment = 64;

/// Elements of a gradient that are widened to fp64 at a time to take its norm: what is widened stays in the cache.
inline constexpr int64_t widened_for_norm = 1 << 18;

/// Ranks that hold a group's shards between them, of all `ranks`.
inline int64_t ranks_in_row(Strategy strategy, int64_t shard_group_size, int64_t ranks) {
  if (strategy == Strategy::no_shard) return 1;
  return strategy == Strategy::hybrid_shard ? shard_group_size : ranks;
}

}  // namespace wmtp
