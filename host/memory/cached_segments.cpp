#include "memory/cached_segments.hpp"

#include "base/round_up.hpp"

namespace wmtp {
namespace {

constexpr int64_t MiB = 1 << 20;
constexpr int64_t smallest_block = 512;
constexpr int64_t most_small = MiB;  // bytes of a small block

int64_t segment_size(int64_t block) {
  if (block <= most_small) return 2 * MiB;
  return block < 10 * MiB ? 20 * MiB : round_up(block, 2 * MiB);
}

}  // namespace

void CachedSegments::clear() {
  const std::lock_guard lock(mutex_);
  blocks_.clear();
  unused_.clear();
  free_ = {};
  in_use_.clear();
  reserved_ = 0;
}

int64_t CachedSegments::reserved() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

void CachedSegments::allocate(const void* key, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const int64_t size = round_up(bytes, smallest_block);
  Block* const block = take(size);
  const int64_t rest = block->size - size;
  if (block->is_small ? rest >= smallest_block : rest > most_small) {
    block->size = size;
    Block* const next =
        new_block({block->address + size, rest, block->is_small, false, /*before=*/block, block->after});
    if (next->after) next->after->before = next;
    block->after = next;
    add_free(*next);
  }
  in_use_[key] = block;
}

CachedSegments::Block* CachedSegments::take(int64_t size) {
  const bool is_small = size <= most_small;
  Block wanted{0, size, is_small};
  if (const auto fitting = free_[is_small].lower_bound(&wanted); fitting != free_[is_small].end()) {
    Block* const block = *fitting;
    remove_free(*block);
    return block;
  }
  const int64_t address = reserved_, segment = segment_size(size);
  reserved_ += segment;
  return new_block({address, segment, is_small});
}

void CachedSegments::free(const void* key) {
  const std::lock_guard lock(mutex_);
  const auto in_use = in_use_.find(key);
  if (in_use == in_use_.end()) return;
  Block* block = in_use->second;
  in_use_.erase(in_use);
  if (block->after && block->after->is_free) {
    remove_free(*block->after);
    absorb_next(*block);
  }
  if (block->before && block->before->is_free) {
    block = block->before;
    remove_free(*block);
    absorb_next(*block);
  }
  add_free(*block);
}

CachedSegments::Block* CachedSegments::new_block(const Block& block) {
  if (unused_.empty()) return &blocks_.emplace_back(block);
  Block* const reused = unused_.back();
  unused_.pop_back();
  *reused = block;
  return reused;
}

void CachedSegments::absorb_next(Block& block) {
  Block* const next = block.after;
  block.size += next->size;
  block.after = next->after;
  if (block.after) block.after->before = &block;
  unused_.push_back(next);
}

void CachedSegments::add_free(Block& block) {
  block.is_free = true;
  free_[block.is_small].insert(&block);
}

void CachedSegments::remove_free(Block& block) {
  block.is_free = false;
  free_[block.is_small].erase(&block);
}

CachedSegments& meta_segments() {
  static auto* segments = new CachedSegments;  // outlives all tensors, even static ones
  return *segments;
}

}  // namespace wmtp
