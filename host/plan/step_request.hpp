// StepRequest: the layout in which a step of an experiment is planned; PlannedStep: what a rank of it needs. The
// engine answers by running the step on tensors without values (plan/torch/planned_step.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "base/memory_category.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

/// Bytes that a rank receives, which are as many as it sends.
struct Traffic {
  double bus = 0;      ///< from ranks of its host
  double network = 0;  ///< from ranks of other hosts; per network card if each rank has one
  Traffic& operator+=(const Traffic& other) {
    bus += other.bus;
    network += other.network;
    return *this;
  }
};

/// Speeds of one rank: operations and bytes per second, and seconds per byte where the name says seconds.
struct Rates {
  double operations = 0;
  double bus = 0, network = 0;  ///< bytes received; 0: links that take no time
  /// Time that a rank waits for a byte of a collective in memory, of which none overlaps.
  double exchange_seconds = 0;
  /// Computing time per byte of collectives between hosts, which also send bytes of `bus` through sockets.
  double socket_seconds = 0;
};

struct StepRequest {
  bool trains_all = false;  ///< with the default adapter in place of the experiment's
  Strategy strategy = Strategy::full_shard;
  int64_t shard_group_size = 0;  ///< hybrid_shard
  int64_t ranks = 1;
  int64_t hosts = 1;               ///< each runs as many consecutive ranks
  int64_t sequences_per_rank = 1;  ///< per micro-batch
  int64_t sequence_length = 0;     ///< in positions
  int64_t sequence_ranks = 1;      ///< ranks that divide the positions of the same sequences
  int64_t tensor_ranks = 1;        ///< consecutive ranks that divide the features of blocks
  int64_t sections = 1;            ///< of the model, each on as many ranks (parallel.pipeline)
  int64_t gradient_accumulation = 1;
  double activation_checkpointing = 0;  ///< share of the trained trunk blocks, counted from the first
  bool activation_offload = false;
  CpuOffload offload = CpuOffload::none;
  bool on_cuda = false;
  /// Rows of sequence_length of the training data, if the pipeline reads what their losses were before and on the CPU:
  /// a table that each rank with the heads holds. 0: unknown, too.
  int64_t windows = 0;
  bool compare_ranks = false;  ///< refuses a step in which ranks would call different collectives
  std::optional<Rates> rates;  ///< counts seconds of the step, too
};

/// The cost of offloaded master shards, activations and optimizer state on one rank, in bytes.
struct OffloadCost {
  int64_t host = 0;                    ///< host memory, on the CPU of a file
  int64_t to_device = 0, to_host = 0;  ///< transfers per step
  int64_t file = 0;                    ///< of the optimizer's state
  int64_t from_file = 0, to_file = 0;  ///< read and written per step
};

/// The work of one rank in a step.
struct RankWork {
  double seconds = 0;     ///< 0 without rates
  double at_borders = 0;  ///< of these seconds, in exchanges with neighbouring sections
  double operations = 0;  ///< floating-point operations of matrix products and attention
  double extra = 0;       ///< what exceeds those that perf/mfu counts: repeated ones, and of frozen models
  Traffic traffic;
};

struct ParameterCounts {
  int64_t parameters = 0, trained = 0;    ///< of the policy, including adapter and value heads
  int64_t model = 0;                      ///< without the adapter, which the final model does not have
  int64_t state = 0;                      ///< of a checkpoint to resume from: trained ones, and the optimizer's of each
  std::map<std::string, int64_t> frozen;  ///< of the frozen models, by table
};

struct PlannedStep {
  ParameterCounts counts;
  int64_t token_heads = 0;
  std::map<std::string, MemorySnapshot> phases;  ///< the peak of each
  int64_t reserved = 0;                          ///< held by a CUDA device's allocator at the end; 0 on the CPU
  OffloadCost offloaded;
  RankWork work;
  double imbalance = 1;  ///< the most operations of a section over the mean of all
};

/// The phase with the highest peak. [at least one phase]
inline std::map<std::string, MemorySnapshot>::const_iterator highest_phase(
    const std::map<std::string, MemorySnapshot>& phases) {
  return std::ranges::max_element(phases, {}, [](const auto& phase) { return phase.second.total; });
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Traffic, bus, network)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Rates, operations, bus, network, exchange_seconds, socket_seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepRequest, trains_all, strategy, shard_group_size, ranks, hosts,
                                   sequences_per_rank, sequence_length, sequence_ranks, tensor_ranks, sections,
                                   gradient_accumulation, activation_checkpointing, activation_offload, offload,
                                   on_cuda, windows, compare_ranks, rates)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OffloadCost, host, to_device, to_host, file, from_file, to_file)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankWork, seconds, at_borders, operations, extra, traffic)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemorySnapshot, bytes, total)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ParameterCounts, parameters, trained, model, state, frozen)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlannedStep, counts, token_heads, phases, reserved, offloaded, work, imbalance)

}  // namespace wmtp
