// The allocations of a unit's flat storage in engine/shard/parameter_group.cpp. A group has E elements, padded to 64
// per rank, of which a rank stores E/G (G: size of the shard group); e bytes per element in the compute dtype, w in the
// dtype of the reduction.
//
//   master             4 bytes per local trained element, e per local frozen element
//   gathered           E e; none if it is the master itself: not sharded, and of the same dtype
//   gathering          the local shard in the compute dtype, if the master has another dtype
//   gradient           4 E while a micro-batch runs (no_shard, shard_optimizer: a step), then 4 bytes per local trained
//                      element
//   reducing           w E received, and w E sent unless the gradient itself is sent; then the same for E/G elements
//                      if replicate groups sum the results of their shard groups
//   optimizer          4 bytes per local trained element for each moment: two of AdamW, one of SGD with momentum; with
//                      Muon one of each matrix of a block and two of all others; and for a moving average
//   Muon               4 E gathered, and for the largest matrix [m,n], m <= n: 8 m n + 8 m m; with replicate groups the
//                      updates that they exchange
//   checkpoint         a copy of master and optimizer if checkpoints are written in the background
// If offloaded, master, optimizer and checkpoint are in host memory, with a copy of the master in the compute dtype if
// that differs; each gather transfers the local shard to the device, each step its gradient to the host.
// Shared memory between ranks of one host (engine/comm/shared_rings.hpp) is not a tensor.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "core/model/alignment.hpp"
#include "core/replay/layout.hpp"
#include "core/replay/ledger.hpp"

namespace wmtp {

/// Per element.
inline int64_t bytes_of(Precision precision) { return precision == Precision::fp32 ? 4 : 2; }

struct StorageSizes {
  Strategy strategy;
  Precision precision;
  int64_t ranks;
  int64_t shard_group_size = 0;        ///< hybrid_shard
  Precision reduce = Precision::fp32;  ///< dtype of the reduction
  bool background_saves = false;
  bool replicate_frozen = false;
  CpuOffload offload = CpuOffload::none;
  int64_t hosts = 1;
  bool on_cuda = false;
  OptimizerConfig optimizer = {};
  bool ema = false;
};

/// The elements of the optimizer's state, with a moving average, of `elements` of a group: all of it, or the shard of
/// which the rank with the fewest matrices of Muon keeps most.
int64_t state_elements(const PlannedGroup& group, int64_t elements, const OptimizerConfig& optimizer, bool ema);

/// A group of ranks that communicate, `on_host` of them on each host.
struct PlannedAxis {
  int64_t ranks = 1, on_host = 1;
  bool on_cuda = true;
  /// Each rank sends one of equal parts of `bytes` to each other rank.
  Traffic all_to_all(int64_t bytes) const;
  /// Each rank sends `bytes` to all others. On GPUs, the parts of other hosts enter a host once, divided among its ranks,
  /// and then travel over its bus, like in the rings of NCCL. In the one ring of Gloo, the parts of all other ranks enter
  /// a host, those of its own ranks included; these are means over its ranks.
  Traffic all_gather(int64_t bytes) const;
};

class StoredGroup {
 public:
  StoredGroup(Ledger& ledger, const StorageSizes& sizes, const PlannedGroup& group, bool trains, bool fp32);

  void start_gather();
  void ready();
  void release();
  void master_changed();
  void write_gradient();
  void start_reduce(bool last);
  void finish_reduce();
  void finish_replicate_reduce();
  void finish_sharing_sums();
  void step();
  int64_t gather_for_saving() const;

 private:
  bool shards() const { return group_ > 1; }
  bool reduces_once_per_step() const { return !shards() || sizes_.strategy == Strategy::shard_optimizer; }
  bool is_alone() const { return sizes_.ranks == 1; }
  bool is_offloaded() const { return wmtp::is_offloaded(sizes_.offload, trains_); }
  Held sending(int64_t elements);
  struct MatrixRounds {
    int64_t count = 0, longest = 0, exchanged = 0;
  };
  MatrixRounds rounds_of_matrices() const;
  void orthogonalize();
  void start_sharing_sums(int64_t elements);
  Ledger& ledger_;
  StorageSizes sizes_;
  std::vector<std::pair<int64_t, int64_t>> matrices_;
  bool trains_;
  int64_t group_;  ///< ranks of the shard group
  PlannedAxis shard_axis_, replicate_axis_;
  int64_t element_;        ///< bytes per element in the compute dtype
  int64_t reduced_;        ///< bytes per element in the reduction
  int64_t total_, local_;  ///< elements
  bool last_ = false;      ///< this is the last reduction of the step
  Held master_, optimizer_, copy_, gathered_, cast_, whole_gradient_, sent_, arriving_, gradient_, sums_;
  InFlight gather_, reduce_, sharing_;
};

/// The groups of a unit; each call applies to all of them.
class StoredUnit {
 public:
  StoredUnit(Ledger& ledger, const StorageSizes& sizes, const PlannedUnit& unit);
  const std::string& name() const { return unit_.name; }
  const PlannedUnit& planned() const { return unit_; }
  bool trains() const { return unit_.trained.elements > 0; }
  std::deque<StoredGroup>& groups() { return groups_; }
  void start_gather() { each(&StoredGroup::start_gather); }
  void ready() {
    start_gather();
    each(&StoredGroup::ready);
  }
  void release() { each(&StoredGroup::release); }
  void write_gradient() { each(&StoredGroup::write_gradient); }
  void start_reduce(bool last) { each(&StoredGroup::start_reduce, last); }
  void finish_reduce() { each(&StoredGroup::finish_reduce); }
  void finish_replicate_reduce() { each(&StoredGroup::finish_replicate_reduce); }
  void finish_sharing_sums() { each(&StoredGroup::finish_sharing_sums); }

 private:
  template <class Call, class... Arguments>
  void each(Call call, Arguments... arguments) {
    for (StoredGroup& group : groups_) (group.*call)(arguments...);
  }

  const PlannedUnit& unit_;
  std::deque<StoredGroup> groups_;
};

/// A unit's weights for the lifetime of this object, like Gathered in engine/shard/sharded_model.hpp.
class InUse {
 public:
  explicit InUse(StoredUnit& unit, StoredUnit* next = nullptr) : unit_(unit) {
    unit_.ready();
    if (next) next->start_gather();
  }
  ~InUse() { unit_.release(); }
  InUse(const InUse&) = delete;

 private:
  StoredUnit& unit_;
};

}  // namespace wmtp
