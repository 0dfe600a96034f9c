#include "core/plan/unit.hpp"

#include <algorithm>

#include "core/model/alignment.hpp"

namespace wmtp {

StoredGroup::StoredGroup(Ledger& ledger, const StorageSizes& sizes, const PlannedGroup& group, bool trains, bool fp32)
    : ledger_(ledger),
      sizes_(sizes),
      trains_(trains),
      row_(ranks_in_row(sizes.strategy, sizes.shard_group_size, sizes.ranks)),
      element_(fp32 ? 4 : bytes_of(sizes.precision)),
      wire_(bytes_of(sizes.reduce)),
      total_(round_up(group.elements, alignment * sizes.ranks)),
      here_(total_ / row_) {
  if (is_offloaded()) {
    ledger.offloaded().host += here_ * (4 + 2 * 4 + (element_ != 4 ? element_ : 0) + (sizes.saves_beside ? 3 * 4 : 0));
    return;
  }
  master_ = {ledger, MemoryCategory::parameters, here_ * (trains ? 4 : element_)};
  if (!trains) return;
  optimizer_ = {ledger, MemoryCategory::optimizer, 2 * 4 * here_};
  if (sizes.saves_beside) copy_ = {ledger, MemoryCategory::checkpoint, 3 * 4 * here_};
}

void StoredGroup::start_gather() {
  if (gathered_) return;
  const bool is_cast = is_offloaded() || (trains_ && element_ != 4);  // else it is the master
  if (is_offloaded()) ledger_.offloaded().to_device += here_ * element_;
  if (shards()) {
    if (is_cast) cast_ = {ledger_, MemoryCategory::gathered, here_ * element_};
    gathered_ = {ledger_, MemoryCategory::gathered, total_ * element_};
  } else if (is_cast) {
    gathered_ = {ledger_, MemoryCategory::gathered, total_ * element_};
  }
}

void StoredGroup::release() {
  if (sizes_.strategy != Strategy::shard_grad_op && shards()) gathered_.reset();
}

void StoredGroup::master_changed() {
  if (trains_) gathered_.reset();
}

void StoredGroup::write_gradient() {
  if (trains_ && !whole_gradient_) whole_gradient_ = {ledger_, MemoryCategory::gradients, 4 * total_};
}

/// What is sent, where it is a copy.
Held StoredGroup::sending(int64_t elements) {
  return wire_ == 4 ? Held() : Held(ledger_, MemoryCategory::communication, wire_ * elements);
}

void StoredGroup::start_reduce(bool last) {
  if (!trains_ || (!shards() && !is_alone() && !last)) return;
  last_ = last;
  write_gradient();
  if (is_alone()) return;
  sent_ = sending(total_);
  arriving_ = {ledger_, MemoryCategory::communication, wire_ * total_};
  if (shards() && sent_) whole_gradient_.reset();
}

void StoredGroup::finish_reduce() {
  if (is_alone() && whole_gradient_) {
    if (!gradient_) gradient_ = std::move(whole_gradient_);
    whole_gradient_.reset();
  }
  if (!arriving_) return;
  sent_.reset();
  if (shards()) {
    whole_gradient_.reset();  // sent as it was
    Held sum;
    if (wire_ != 4 || !gradient_) sum = {ledger_, MemoryCategory::gradients, 4 * here_};
    if (!gradient_) gradient_ = std::move(sum);
  } else {
    sum_over_column(total_);
    gradient_ = std::move(whole_gradient_);
  }
  arriving_.reset();
  if (!shards() || !last_ || row_ == sizes_.ranks) return;
  sent_ = sending(here_);
  arriving_ = {ledger_, MemoryCategory::communication, wire_ * here_};
}

void StoredGroup::finish_column() {
  if (!arriving_) return;
  sent_.reset();
  sum_over_column(here_);
  arriving_.reset();
}

void StoredGroup::sum_over_column(int64_t elements) {
  const int64_t mine = elements * row_ / sizes_.ranks;
  Held sum, all;
  if (wire_ != 4) {
    sum = {ledger_, MemoryCategory::communication, (4 + wire_) * mine};
    all = {ledger_, MemoryCategory::communication, wire_ * elements};
  }
}

void StoredGroup::measure_gradient() const {
  if (gradient_) const Held wide(ledger_, MemoryCategory::other, 8 * std::min(here_, widened_for_norm));
}

void StoredGroup::step() {
  if (is_offloaded() && gradient_) ledger_.offloaded().to_host += 4 * here_;
  master_changed();
  gradient_.reset();
}

/// What each rank gathers to write the model; the master itself where it is whole. In bytes.
int64_t StoredGroup::gather_for_saving() const { return shards() ? total_ * (trains_ ? 4 : element_) : 0; }

StoredUnit::StoredUnit(Ledger& ledger, const StorageSizes& sizes, const PlannedUnit& unit) : unit_(unit) {
  if (unit.trained.elements > 0) groups_.emplace_back(ledger, sizes, unit.trained, true, unit.always_fp32);
  if (unit.frozen.elements == 0) return;
  StorageSizes of_frozen = sizes;
  if (sizes.replicate_frozen) of_frozen.strategy = Strategy::no_shard;
  groups_.emplace_back(ledger, of_frozen, unit.frozen, false, unit.always_fp32);
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
void StoredUnit::finish_column() {
  for (StoredGroup& group : groups_) group.finish_column();
}

}  // namespace wmtp
