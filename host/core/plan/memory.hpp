// What a step will take on each rank, without running it: its allocations are replayed as numbers, in the order in
// which the code makes them, so the estimate follows the schedule and not a formula for the whole. Every size is
// written where it is replayed (memory.cpp the step, block.cpp a block). Knows no LibTorch.
//
// Counted is what the allocator counts on a rank whose tensors lie on the CPU: tensors, by category, at the moment when
// most is live. Not counted: what the process takes without tensors (LibTorch's libraries, threads, the connections of
// Gloo), blocks that the allocator keeps for later, what a plugin makes for itself, validation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "core/model/category.hpp"
#include "core/plan/layout.hpp"
#include "core/plan/ledger.hpp"

namespace wmtp {

struct PlannedModel {
  ModelConfig shape;
  PlannedLayout layout;
  Strategy strategy = Strategy::full_shard;
  Precision precision = Precision::fp32;
  int64_t shard_group_size = 0;  ///< hybrid_shard
  bool replicate_frozen = false;
  bool offload = false;  ///< master shards of what trains, and the optimizer's state, in the host's memory
};

struct MemoryQuestion {
  PlannedModel policy;
  std::vector<PlannedModel> frozen;  ///< those that the pipeline reads
  int64_t token_heads = 0;           ///< of the policy
  std::string when = "before";       ///< the moment at which the weighting is asked
  int64_t ranks = 1;
  int64_t sequences = 1;  ///< of a micro-batch on one rank
  int64_t positions = 0;  ///< of a sequence
  int64_t gradient_accumulation = 1;
  double activation_checkpointing = 0;  ///< share of the trunk blocks that train, from the first
  Precision reduce = Precision::fp32;
  bool saves_beside = false;  ///< checkpoints are written while the training goes on
};

struct PlannedMemory {
  /// As MemoryUsage::phases: the moment of each at which most is live.
  std::map<std::string, MemoryMoment> phases;
  Offloaded offloaded;
};
PlannedMemory plan_memory(const MemoryQuestion& question);

/// The phase of the highest moment. [at least one phase]
std::map<std::string, MemoryMoment>::const_iterator highest(const std::map<std::string, MemoryMoment>& phases);

}  // namespace wmtp
