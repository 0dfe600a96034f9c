#include "core/replay/unit.hpp"

#include <algorithm>

namespace wmtp {

Traffic PlannedAxis::all_to_all(int64_t bytes) const {
  const double part = double(bytes) / double(ranks);
  return {part * double(on_host - 1), part * double(ranks - on_host)};
}

Traffic PlannedAxis::all_gather(int64_t bytes) const {
  const int64_t entering = ranks == on_host ? 0 : on_cuda ? ranks - on_host : ranks - 1;
  const double network = double(bytes) * double(entering) / double(on_host);
  return {double(bytes) * double(ranks - 1) - network, network};
}

int64_t state_elements(const PlannedGroup& group, int64_t elements, const OptimizerConfig& optimizer, bool ema) {
  const int64_t average = ema ? elements : 0;
  if (optimizer.name == "sgd") return average + (optimizer.momentum > 0 ? elements : 0);
  int64_t others = group.parameters;
  for (const auto& [rows, columns] : group.matrices) others -= rows * columns;
  return average + elements + std::min(group.matrices.empty() ? elements : others, elements);
}

StoredGroup::StoredGroup(Ledger& ledger, const StorageSizes& sizes, const PlannedGroup& group, bool trains, bool fp32)
    : ledger_(ledger),
      sizes_(sizes),
      matrices_(group.matrices),
      trains_(trains),
      group_(ranks_in_row(sizes.strategy, sizes.shard_group_size, sizes.ranks)),
      shard_axis_{group_, std::min(group_, sizes.ranks / sizes.hosts), sizes.on_cuda},
      replicate_axis_{sizes.ranks / group_, std::max<int64_t>(sizes.ranks / sizes.hosts / group_, 1), sizes.on_cuda},
      element_(fp32 ? 4 : bytes_of(sizes.precision)),
      reduced_(bytes_of(sizes.reduce)),
      total_(round_up(group.elements, alignment * sizes.ranks)),
      local_(total_ / group_) {
  const int64_t of_optimizer = 4 * state_elements(group, local_, sizes.optimizer, sizes.ema);
  if (is_offloaded()) {
    const int64_t state = (sizes.background_saves ? 2 : 1) * (4 * local_ + of_optimizer);
    ledger.offloaded().host += trains ? state + (element_ != 4 ? element_ * local_ : 0) : element_ * local_;
    return;
  }
  master_ = {ledger, MemoryCategory::parameters, local_ * (trains ? 4 : element_)};
  if (!trains) return;
  optimizer_ = {ledger, MemoryCategory::optimizer, of_optimizer};
  if (sizes.background_saves) copy_ = {ledger, MemoryCategory::checkpoint, 4 * local_ + of_optimizer};
}

void StoredGroup::start_gather() {
  if (gathered_) return;
  const bool is_cast = is_offloaded() || (trains_ && element_ != 4);  // otherwise it is the master itself
  if (is_offloaded()) ledger_.offloaded().to_device += local_ * element_;
  if (shards()) {
    if (is_cast) cast_ = {ledger_, MemoryCategory::gathered, local_ * element_};
    gathered_ = {ledger_, MemoryCategory::gathered, total_ * element_};
    gather_ = ledger_.start(shard_axis_.all_gather(local_ * element_));
  } else if (is_cast) {
    gathered_ = {ledger_, MemoryCategory::gathered, total_ * element_};
  }
}

void StoredGroup::ready() {
  cast_.reset();
  ledger_.finish(gather_);
}

void StoredGroup::release() {
  const bool is_streamed = is_offloaded() && !trains_;
  if (is_streamed || (shards() && !keeps_gathered(sizes_.strategy))) gathered_.reset();
}

void StoredGroup::master_changed() {
  if (trains_) gathered_.reset();
}

void StoredGroup::write_gradient() {
  if (trains_ && !whole_gradient_) whole_gradient_ = {ledger_, MemoryCategory::gradients, 4 * total_};
}

/// The send buffer, if it is a copy.
Held StoredGroup::sending(int64_t elements) {
  return reduced_ == 4 ? Held() : Held(ledger_, MemoryCategory::communication, reduced_ * elements);
}

void StoredGroup::start_reduce(bool last) {
  if (!trains_ || (reduces_once_per_step() && !is_alone() && !last)) return;
  last_ = last;
  write_gradient();
  if (is_alone()) return;
  sent_ = sending(total_);
  arriving_ = {ledger_, MemoryCategory::communication, reduced_ * total_};
  reduce_ = ledger_.start((shards() ? shard_axis_ : replicate_axis_).all_to_all(reduced_ * total_));
  if (shards() && sent_) whole_gradient_.reset();
}

void StoredGroup::finish_reduce() {
  if (is_alone() && whole_gradient_) {
    if (!gradient_) gradient_ = std::move(whole_gradient_);
    whole_gradient_.reset();
  }
  if (!arriving_) return;
  ledger_.finish(reduce_);
  sent_.reset();
  if (shards()) {
    whole_gradient_.reset();  // sent without a copy
    Held sum;
    if (reduced_ != 4 || !gradient_) sum = {ledger_, MemoryCategory::gradients, 4 * local_};
    if (!gradient_) gradient_ = std::move(sum);
  } else {
    gradient_ = std::move(whole_gradient_);
    start_sharing_sums(total_);
  }
  arriving_.reset();
  if (!shards() || !last_ || group_ == sizes_.ranks) return;
  sent_ = sending(local_);
  arriving_ = {ledger_, MemoryCategory::communication, reduced_ * local_};
  reduce_ = ledger_.start(replicate_axis_.all_to_all(reduced_ * local_));
}

void StoredGroup::finish_replicate_reduce() {
  if (!shards()) finish_sharing_sums();  // started by finish_reduce
  if (!arriving_) return;
  ledger_.finish(reduce_);
  sent_.reset();
  start_sharing_sums(local_);
  arriving_.reset();
}

void StoredGroup::start_sharing_sums(int64_t elements) {
  const int64_t mine = elements * group_ / sizes_.ranks;
  const bool is_in_place = reduced_ == 4;
  const Held sum(ledger_, MemoryCategory::communication, is_in_place ? 0 : 4 * mine);
  sums_ = {ledger_, MemoryCategory::communication, is_in_place ? 0 : reduced_ * (mine + elements)};
  sharing_ = ledger_.start(replicate_axis_.all_gather(reduced_ * mine));
}

void StoredGroup::finish_sharing_sums() {
  ledger_.finish(sharing_);
  sums_.reset();
}

/// Like step_matrices in engine/shard/muon.cpp.
void StoredGroup::orthogonalize() {
  if (matrices_.empty() || !gradient_) return;
  const auto category = MemoryCategory::communication;
  const Held whole = shards() || is_offloaded() ? Held(ledger_, category, 4 * total_) : Held();
  if (shards()) {
    InFlight gather = ledger_.start(shard_axis_.all_gather(4 * local_));
    ledger_.finish(gather);
  }
  int64_t temporary = 0;
  double operations = 0;
  for (const auto& [rows, columns] : matrices_) {
    const int64_t m = std::min(rows, columns), n = std::max(rows, columns);
    temporary = std::max(temporary, 8 * m * n + 8 * m * m);
    operations += 5 * 2 * double(m) * double(m) * double(2 * n + m);
  }
  const MatrixRounds rounds = rounds_of_matrices();
  const int64_t replicas = replicate_axis_.ranks;
  if (replicas > 1) {
    InFlight gather = ledger_.start(replicate_axis_.all_gather(4 * rounds.exchanged));
    ledger_.finish(gather);
  }
  const Held exchanged(ledger_, category, replicas > 1 ? 4 * rounds.longest * (replicas + 1) : 0);
  const Held factors(ledger_, category, temporary);
  const ExtraOperations extra(ledger_);
  ledger_.compute(operations * double(rounds.count) / double(matrices_.size()));
}

/// Rounds in which each rank of a replicate group updates one matrix: the largest number and the longest part over all
/// shards, and the elements that a rank sends, their mean.
StoredGroup::MatrixRounds StoredGroup::rounds_of_matrices() const {
  MatrixRounds all;
  const auto replicas = size_t(replicate_axis_.ranks);
  for (int64_t shard = 0; shard < group_; ++shard) {
    std::vector<int64_t> parts;
    int64_t offset = 0;
    for (const auto& [rows, columns] : matrices_) {
      const int64_t begin = std::max(offset, local_ * shard);
      const int64_t end = std::min(offset + rows * columns, local_ * (shard + 1));
      if (begin < end) parts.push_back(end - begin);
      offset += round_up(rows * columns, alignment);
    }
    int64_t count = 0;
    for (size_t first = 0; first < parts.size(); first += replicas, ++count) {
      const auto begin = parts.begin() + int64_t(first);
      const int64_t longest =
          *std::max_element(begin, parts.begin() + int64_t(std::min(first + replicas, parts.size())));
      all.longest = std::max(all.longest, longest);
      all.exchanged += longest;
    }
    all.count = std::max(all.count, count);
  }
  all.exchanged /= group_;
  return all;
}

void StoredGroup::step() {
  orthogonalize();
  if (is_offloaded() && gradient_) ledger_.offloaded().to_host += 4 * local_;
  master_changed();
  gradient_.reset();
}

/// Bytes gathered by each rank to save the model; 0 if its master is complete.
int64_t StoredGroup::gather_for_saving() const { return shards() ? total_ * (trains_ ? 4 : element_) : 0; }

StoredUnit::StoredUnit(Ledger& ledger, const StorageSizes& sizes, const PlannedUnit& unit) : unit_(unit) {
  if (unit.trained.elements > 0) groups_.emplace_back(ledger, sizes, unit.trained, true, unit.always_fp32);
  if (unit.frozen.elements == 0) return;
  StorageSizes of_frozen = sizes;
  if (sizes.replicate_frozen) of_frozen.strategy = Strategy::no_shard;
  groups_.emplace_back(ledger, of_frozen, unit.frozen, false, unit.always_fp32);
}

}  // namespace wmtp
