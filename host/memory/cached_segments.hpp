// The segments that LibTorch's caching allocator holds of a CUDA device, by the published rule of its version 2.11 with
// default settings (c10/cuda/CUDACachingAllocator.cpp): a plan has no device that it could ask.
//
// Blocks are multiples of 512 bytes. Those of at most 1 MiB lie in segments of 2 MiB, those below 10 MiB in segments
// of 20 MiB, larger ones in segments of their size, rounded up to 2 MiB. A request takes the smallest free block that
// is large enough, of equal ones that with the lowest address. The rest stays free if it is at least 512 bytes, or
// beside a block above 1 MiB, more than 1 MiB. A freed block joins its free neighbours. Segments are kept; LibTorch
// returns unused ones when the device is full, which is not modelled.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace wmtp {

/// Of one stream. All blocks of a step are requested on the training stream. [any thread]
class CachedSegments {
 public:
  /// Returns all segments. Blocks in use are no longer known.
  void clear();
  /// `key` names the block until it is freed.
  void allocate(const void* key, int64_t bytes);
  /// Ignores an unknown key.
  void free(const void* key);
  /// Bytes of all segments, in use or not.
  int64_t reserved() const;

 private:
  struct Block {
    int64_t address, size;
    bool is_small, is_free = false;
    Block *before = nullptr, *after = nullptr;  ///< neighbours in its segment
  };
  struct BySize {
    bool operator()(const Block* one, const Block* other) const {
      return std::pair(one->size, one->address) < std::pair(other->size, other->address);
    }
  };

  /// A block of at least `size` bytes that was free, or a new segment.
  Block* take(int64_t size);
  Block* new_block(const Block& block);
  /// Appends the next block, which is free.
  void absorb_next(Block& block);
  void add_free(Block& block);
  void remove_free(Block& block);

  mutable std::mutex mutex_;
  std::deque<Block> blocks_;
  std::vector<Block*> unused_;                    ///< of blocks_
  std::array<std::set<Block*, BySize>, 2> free_;  ///< by is_small
  std::unordered_map<const void*, Block*> in_use_;
  int64_t reserved_ = 0;
};

/// Those of the CUDA device that meta tensors stand for (memory/meta_device.hpp).
CachedSegments& meta_segments();

}  // namespace wmtp
