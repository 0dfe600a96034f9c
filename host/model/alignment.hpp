// Padding and sharding of a group's flat storage, shared by the engine and `plan`.
#pragma once

#include <cstdint>

#include "base/round_up.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

/// Each parameter of a group starts at a multiple of this many elements: 256 bytes in fp32, 128 in bf16.
inline constexpr int64_t alignment = 64;

/// The number of ranks, out of `ranks`, that share one copy of a group.
inline int64_t shard_group_ranks(Strategy strategy, int64_t shard_group_size, int64_t ranks) {
  if (strategy == Strategy::no_shard) return 1;
  return strategy == Strategy::hybrid_shard ? shard_group_size : ranks;
}

/// Whether the master of a group is in host memory.
inline bool is_offloaded(CpuOffload offload, bool trains) {
  return offload == CpuOffload::all || (offload == CpuOffload::trained && trains);
}

/// Whether gathered weights are kept until the master changes.
inline bool keeps_gathered(Strategy strategy) {
  return strategy == Strategy::shard_grad_op || strategy == Strategy::shard_optimizer;
}

}  // namespace wmtp
