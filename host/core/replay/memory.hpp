// The memory of a step on each rank, without running it: replays the step's allocations as numbers, in the engine's
// order, so that the estimate follows the schedule instead of a formula. Each size is given where it is replayed (the
// step in memory.cpp, a block in block.cpp).
//
// Also counts the step's work: operations of matrix products and attention, as in engine/train/utilization.hpp, and those
// repeated by activation checkpointing; bytes of gathers and reductions; with rates, seconds. Not counted: validation, saving.
//
// Counted, as by the allocator of a CPU rank: tensors by category, at the peak. Not counted: other memory of the
// process (LibTorch's libraries, threads, Gloo's connections), memory cached by the allocator, tensors created by
// plugins, validation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "core/model/category.hpp"
#include "core/replay/layout.hpp"
#include "core/replay/ledger.hpp"

namespace wmtp {

struct PlannedModel {
  ModelConfig shape;
  PlannedLayout layout;
  Strategy strategy = Strategy::full_shard;
  Precision precision = Precision::fp32;
  int64_t shard_group_size = 0;  ///< hybrid_shard
  bool replicate_frozen = false;
  CpuOffload offload = CpuOffload::none;
};

struct MemoryQuestion {
  PlannedModel policy;
  std::vector<PlannedModel> frozen;  ///< models read by the pipeline
  int64_t token_heads = 0;           ///< of the policy
  std::string when = "before";       ///< when the weighting is called
  int64_t ranks = 1;
  int64_t hosts = 1;      ///< each runs as many consecutive ranks
  int64_t sequences = 1;  ///< per micro-batch and rank
  int64_t positions = 0;  ///< per sequence
  int64_t sequence = 1;   ///< ranks that divide the positions of the same sequences
  int64_t gradient_accumulation = 1;
  double activation_checkpointing = 0;  ///< share of the trained trunk blocks, counted from the first
  bool activation_offload = false;
  Precision reduce = Precision::fp32;
  bool on_cuda = false;
  OptimizerConfig optimizer = {};
  bool ema = false;               ///< a moving average of the trained parameters
  bool background_saves = false;  ///< checkpoints are written while training continues
  std::optional<Rates> rates;     ///< counts seconds of the step, too
};

struct PlannedMemory {
  /// The peak of each phase.
  std::map<std::string, MemoryMoment> phases;
  Offloaded offloaded;
  Work work;  ///< in a step
};
PlannedMemory plan_memory(const MemoryQuestion& question);

/// The phase with the highest peak. [at least one phase]
std::map<std::string, MemoryMoment>::const_iterator highest(const std::map<std::string, MemoryMoment>& phases);

}  // namespace wmtp
