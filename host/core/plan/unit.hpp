// A unit's flat storage as allocations: what engine/shard/parameter_group.cpp holds. E elements of a group, padded to 64 a
// rank; on a rank E/G of them, G the ranks of a row; e bytes an element in the compute dtype, w on the wire.
//
//   master             4 bytes of each trained element here, e of each frozen one
//   optimizer          8 bytes of each trained element here
//   gathered           E e; nothing where it is the master itself: not sharded, and of the same dtype
//   gathering          and this rank's part in the compute dtype, where the master has another
//   gradient           4 E while a micro-batch runs, then 4 bytes of each trained element here
//   reducing           w E for what arrives, and for what is sent where that is not the gradient itself; of E/G
//                      elements once more where columns add up what their rows have summed
//   checkpoint         a copy of master and optimizer where saves are written beside the training
// Where master shards are offloaded, master, optimizer and checkpoint are in the host's memory, with a copy of the master
// in the compute dtype where that is another; each gather brings this rank's part to the device, each step its gradient
// to the host.
// Ranks of several hosts speak Gloo, which gathers into a buffer of its own and copies: as much more for a moment, which
// is not counted. What ranks of one host share to exchange (engine/comm/shared_rings.hpp) is no tensor.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "core/plan/layout.hpp"
#include "core/plan/ledger.hpp"

namespace wmtp {

/// Of an element.
inline int64_t bytes_of(Precision precision) { return precision == Precision::fp32 ? 4 : 2; }

struct StorageSizes {
  Strategy strategy;
  Precision precision;
  int64_t ranks;
  int64_t shard_group_size = 0;        ///< hybrid_shard: ranks in a row
  Precision reduce = Precision::fp32;  ///< on the wire
  bool saves_beside = false;
  bool replicate_frozen = false;
  bool offload = false;
};

class StoredGroup {
 public:
  StoredGroup(Ledger& ledger, const StorageSizes& sizes, const PlannedGroup& group, bool trains, bool fp32);

  void start_gather();
  void ready() { cast_.reset(); }
  void release();
  void master_changed();
  void write_gradient();
  void start_reduce(bool last);
  void finish_reduce();
  void finish_column();
  void measure_gradient() const;
  void step();
  int64_t gather_for_saving() const;

 private:
  bool shards() const { return row_ > 1; }
  bool is_alone() const { return sizes_.ranks == 1; }
  bool is_offloaded() const { return sizes_.offload && trains_; }
  Held sending(int64_t elements);
  void sum_over_column(int64_t elements);
  Ledger& ledger_;
  StorageSizes sizes_;
  bool trains_;
  int64_t row_;           ///< ranks
  int64_t element_;       ///< bytes, in the compute dtype
  int64_t wire_;          ///< bytes of an element
  int64_t total_, here_;  ///< elements
  bool last_ = false;     ///< the reduce under way is the step's last
  Held master_, optimizer_, copy_, gathered_, cast_, whole_gradient_, sent_, arriving_, gradient_;
};

/// The groups of one unit; calls go to each.
class StoredUnit {
 public:
  StoredUnit(Ledger& ledger, const StorageSizes& sizes, const PlannedUnit& unit);
  const std::string& name() const { return unit_.name; }
  const PlannedUnit& planned() const { return unit_; }
  bool trains() const { return unit_.trained.elements > 0; }
  std::deque<StoredGroup>& groups() { return groups_; }
  void start_gather();
  void ready();
  void release();
  void write_gradient();
  void start_reduce(bool last);
  void finish_reduce();
  void finish_column();

 private:
  const PlannedUnit& unit_;
  std::deque<StoredGroup> groups_;
};

/// A unit's weights while this lives; as Gathered of engine/shard/sharded_model.hpp.
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
