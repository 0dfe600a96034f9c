#include "plan/unit.hpp"

#include "shard/alignment.hpp"

namespace wmtp {

StoredGroup::StoredGroup(Ledger& ledger, const StorageSizes& sizes, const PlannedGroup& group, bool trains, bool fp32)
    : ledger_(ledger),
      sizes_(sizes),
      trains_(trains),
      element_(fp32 || sizes.precision == Precision::fp32 ? 4 : 2),
      total_(round_up(group.elements, alignment * sizes.ranks)),
      here_(shards() ? total_ / sizes.ranks : total_),
      master_(ledger, MemoryCategory::parameters, here_ * (trains ? 4 : element_)) {
  if (trains) optimizer_ = {ledger, MemoryCategory::optimizer, 2 * 4 * here_};
}

void StoredGroup::start_gather() {
  if (gathered_) return;
  const bool is_cast = trains_ && element_ != 4;
  if (shards()) {
    if (is_cast) cast_ = {ledger_, MemoryCategory::gathered, here_ * element_};
    gathered_ = {ledger_, MemoryCategory::gathered, total_ * element_};
    const Held of_gloo(ledger_, MemoryCategory::other, total_ * element_);
  } else if (is_cast) {
    gathered_ = {ledger_, MemoryCategory::gathered, total_ * element_};
  }
}

void StoredGroup::release() {
  if (sizes_.strategy == Strategy::full_shard && shards()) gathered_.reset();
}

void StoredGroup::master_changed() {
  if (trains_) gathered_.reset();
}

void StoredGroup::write_gradient() {
  if (trains_ && !whole_gradient_) whole_gradient_ = {ledger_, MemoryCategory::gradients, 4 * total_};
}

void StoredGroup::start_reduce(bool last) {
  if (!trains_ || (sizes_.strategy == Strategy::no_shard && !last && sizes_.ranks > 1)) return;
  write_gradient();
  if (sizes_.ranks > 1) arriving_ = {ledger_, MemoryCategory::communication, 4 * total_};
}

void StoredGroup::finish_reduce() {
  if (!whole_gradient_ || (sizes_.ranks > 1 && !arriving_)) return;
  if (sizes_.ranks > 1 && !shards()) {
    const Held sum(ledger_, MemoryCategory::gradients, 4 * total_ / sizes_.ranks);
    const Held of_gloo(ledger_, MemoryCategory::other, 4 * total_);
  }
  if (shards() && !gradient_) gradient_ = {ledger_, MemoryCategory::gradients, 4 * here_};
  if (!gradient_) gradient_ = std::move(whole_gradient_);
  whole_gradient_.reset();
  arriving_.reset();
}

/// Norms are taken in fp64.
void StoredGroup::measure_gradient() const {
  if (gradient_) const Held wide(ledger_, MemoryCategory::other, 8 * here_);
}

/// What each rank gathers to write the model; the master itself where it is whole. In bytes.
int64_t StoredGroup::gather_for_saving() const { return shards() ? total_ * (trains_ ? 4 : element_) : 0; }

StoredUnit::StoredUnit(Ledger& ledger, const StorageSizes& sizes, const PlannedUnit& unit) : unit_(unit) {
  if (unit.trained.elements > 0) groups_.emplace_back(ledger, sizes, unit.trained, true, unit.always_fp32);
  if (unit.frozen.elements > 0) groups_.emplace_back(ledger, sizes, unit.frozen, false, unit.always_fp32);
}

void StoredUnit::start_gather() {
  for (StoredGroup& group : groups_) group.start_gather();
}
void StoredUnit::ready() {
  start_gather();
  for (StoredGroup& group : groups_) group.ready();
}
void StoredUnit::release() {
  for (StoredGroup& group : groups_) group.release();
}
void StoredUnit::write_gradient() {
  for (StoredGroup& group : groups_) group.write_gradient();
}
void StoredUnit::start_reduce(bool last) {
  for (StoredGroup& group : groups_) group.start_reduce(last);
}
void StoredUnit::finish_reduce() {
  for (StoredGroup& group : groups_) group.finish_reduce();
}

}  // namespace wmtp
