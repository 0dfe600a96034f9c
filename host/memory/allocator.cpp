// Blocks carry a 64-byte header (size, category) before the tensor's bytes. Sizes are rounded up to classes, eight per
// power of two, so that tensors whose sizes vary slightly from step to step (the tokens that a pipeline keeps) reuse
// blocks. A freed block is added to its class's free list. With widely varying sizes (records of many lengths) free
// blocks would accumulate: once the total is well above the peak in use, a request uses a free block of a slightly
// larger class, or free blocks are first returned to the system.
#include "memory/allocator.hpp"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include "base/machine.hpp"

namespace wmtp {
namespace {

constexpr size_t header_bytes = 64;
constexpr size_t smallest = 64;
constexpr int steps_bits = 3;  // eight classes per power of two
constexpr size_t num_classes = size_t(64) << steps_bits;
constexpr size_t max_larger_classes = 4;  // up to half as much again
constexpr double most_held = 1.4;         // relative to the peak in use
constexpr int64_t always_held = int64_t{64} << 20;

struct Header {
  size_t size;
  size_t index;     ///< of its class
  size_t capacity;  ///< bytes after the header
  MemoryCategory category;
  bool is_counted;
  Header* next;  ///< in a list of free blocks
};

struct SizeClass {
  size_t index;
  size_t capacity;
};

/// The smallest class that holds `size`: 2^k * (1 + i/8).
SizeClass class_of(size_t size) {
  size = std::max(size, smallest);
  const int power = std::bit_width(size - 1) - 1;  // 2^power < size <= 2^(power+1)
  const size_t step = size_t(1) << (power - steps_bits);
  const size_t capacity = (size + step - 1) / step * step;
  return {(size_t(power) << steps_bits) + (capacity - (size_t(1) << power)) / step, (capacity + 63) / 64 * 64};
}
static_assert(sizeof(Header) <= header_bytes);

thread_local MemoryCategory current_category = MemoryCategory::other;
thread_local bool has_scope = false, is_training_thread = false, is_uncounted = false;
/// Category of the training thread. Autograd allocates for it in a thread of the device, which has no scope of its own.
std::atomic<MemoryCategory> training_category = MemoryCategory::other;

MemoryStats& account() {
  static auto* account = new MemoryStats;  // outlives all tensors, even static ones
  return *account;
}

bool counts_device = false;

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    if (size == 0) return {nullptr, c10::Device(c10::DeviceType::CPU)};
    const std::lock_guard lock(mutex_);
    Header* header = take(size);
    header->size = size;
    header->category = current_category;
    header->is_counted = !counts_device && is_counted(size);
    in_use_ += int64_t(size);
    most_in_use_ = std::max(most_in_use_, in_use_);
    if (header->is_counted) account().allocated(header->category, int64_t(size));
    void* data = reinterpret_cast<char*>(header) + header_bytes;
    return {data, data, &CountingAllocator::release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &CountingAllocator::release; }
  void copy_data(void* to, const void* from, size_t count) const override { std::memcpy(to, from, count); }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    most_in_use_ = in_use_;
  }

  static CountingAllocator& instance() {
    static auto* allocator = new CountingAllocator;  // outlives all tensors, even static ones
    return *allocator;
  }

 private:
  static void release(void* data) {
    if (!data) return;
    auto* header = reinterpret_cast<Header*>(static_cast<char*>(data) - header_bytes);
    instance().give(header);
  }

  Header* take(size_t size) {
    const SizeClass wanted = class_of(size);
    if (Header* header = pop(wanted.index)) return header;
    const auto bytes = int64_t(header_bytes + wanted.capacity);
    const int64_t limit = int64_t(most_held * double(most_in_use_)) + always_held;
    if (held_ + bytes > limit) {
      for (size_t larger = 1; larger <= max_larger_classes && wanted.index + larger < num_classes; ++larger)
        if (Header* header = pop(wanted.index + larger)) return header;
      give_back_until(limit - bytes);
    }
    auto* header = static_cast<Header*>(std::aligned_alloc(header_bytes, size_t(bytes)));
    if (!header) {
      give_back_until(0);
      header = static_cast<Header*>(std::aligned_alloc(header_bytes, size_t(bytes)));
    }
    if (!header) throw std::bad_alloc();
    held_ += bytes;
    header->index = wanted.index;
    header->capacity = wanted.capacity;
    return header;
  }

  Header* pop(size_t index) {
    Header* header = free_[index];
    if (header) free_[index] = header->next;
    return header;
  }

  /// Returns free blocks to the system, largest first, until at most `target` bytes are held or no block is free.
  void give_back_until(int64_t target) {
    for (size_t index = num_classes; index-- > 0 && held_ > target;)
      while (held_ > target) {
        Header* header = pop(index);
        if (!header) break;
        held_ -= int64_t(header_bytes + header->capacity);
        std::free(header);
      }
  }

  void give(Header* header) {
    const std::lock_guard lock(mutex_);
    in_use_ -= int64_t(header->size);
    if (header->is_counted) account().freed(header->category, int64_t(header->size));
    header->next = free_[header->index];
    free_[header->index] = header;
  }

  std::mutex mutex_;
  std::array<Header*, num_classes> free_{};
  int64_t held_ = 0;                      ///< bytes of all blocks, in use or free
  int64_t in_use_ = 0, most_in_use_ = 0;  ///< requested bytes
};

/// Blocks of a device, whose deallocations are reported by address only.
class DeviceBlocks {
 public:
  void allocated(const void* address, int64_t bytes) {
    const MemoryCategory category = has_scope ? current_category : training_category.load();
    const std::lock_guard lock(mutex_);
    blocks_[address] = {category, bytes};
    account().allocated(category, bytes);
  }
  void freed(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(address);
    if (block == blocks_.end()) return;  // allocated before counting began
    account().freed(block->second.category, block->second.bytes);
    blocks_.erase(block);
  }
  static DeviceBlocks& instance() {
    static auto* blocks = new DeviceBlocks;
    return *blocks;
  }

 private:
  struct Block {
    MemoryCategory category;
    int64_t bytes;
  };
  std::mutex mutex_;
  std::unordered_map<const void*, Block> blocks_;
};

int64_t status_bytes(const char* key) { return named_numbers_in("/proc/self/status")[key] * 1024; }

int64_t resident_at_install = 0;

}  // namespace

MemoryScope::MemoryScope(MemoryCategory category) : previous_(current_category), is_outermost_(!has_scope) {
  current_category = category;
  has_scope = true;
  if (is_training_thread) training_category = category;
}
MemoryScope::~MemoryScope() {
  current_category = previous_;
  has_scope = !is_outermost_;
  if (is_training_thread) training_category = previous_;
}

UncountedScope::UncountedScope() : previous_(is_uncounted) { is_uncounted = true; }
UncountedScope::~UncountedScope() { is_uncounted = previous_; }
bool is_counted(size_t bytes) {
  constexpr size_t of_number = 8;
  return !is_uncounted && bytes > of_number;
}

MemoryPhase::MemoryPhase(const std::string& name) : previous_(account().enter(name)) {}
MemoryPhase::~MemoryPhase() { account().enter(previous_); }

void install_allocator() {
  if (resident_at_install == 0) resident_at_install = resident_bytes();
  is_training_thread = true;
  mallopt(M_MMAP_THRESHOLD, 1 << 20);  // large freed blocks return to the system at once
  c10::SetCPUAllocator(&CountingAllocator::instance(), /*priority=*/100);
}
void count_device_memory(bool counts) { counts_device = counts; }
void device_block_allocated(const void* address, int64_t bytes) { DeviceBlocks::instance().allocated(address, bytes); }
void device_block_freed(const void* address) { DeviceBlocks::instance().freed(address); }
void device_memory_changed(const DeviceMemory& now) { account().device_holds(now); }

MemoryUsage memory_usage() { return account().usage(); }
void reset_memory_peak() {
  CountingAllocator::instance().reset_peak();
  account().reset_peak();
}
bool MemoryWatch::grew() {
  bool grew = false;
  MemoryUsage usage = memory_usage();
  for (const auto& [phase, snapshot] : usage.phases) {
    const int64_t bytes = snapshot.total + usage.device_phases[phase].reserved;
    const auto [reported, is_new] = reported_.try_emplace(phase, 0);
    if (!is_new && bytes <= reported->second + reported->second / 20) continue;
    reported->second = bytes;
    grew = true;
  }
  return grew;
}

int64_t peak_resident_bytes() { return status_bytes("VmHWM"); }
int64_t resident_bytes() { return status_bytes("VmRSS"); }
int64_t resident_bytes_without_tensors() { return resident_at_install; }

}  // namespace wmtp
