// Blocks carry a 64-byte header (size, category) before the tensor's bytes. Freed blocks wait for the next request: those
// up to 64 KiB in one list for each power of two, larger ones in a map by size, where a block serves a request that is at
// most an eighth smaller.
#include "memory/allocator.hpp"

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

namespace wmtp {
namespace {

constexpr size_t header_bytes = 64;
constexpr size_t smallest = 64;
constexpr size_t largest_small = 64 * 1024;
constexpr int num_small_lists = 11;  // 64 bytes … 64 KiB

struct Header {
  size_t capacity;
  size_t size;
  int category;
  Header* next;  ///< in a list of free small blocks
};

/// Which list a small size belongs to: the power of two that holds it.
int small_list(size_t size) { return size <= smallest ? 0 : std::bit_width(size - 1) - std::bit_width(smallest) + 1; }
static_assert(sizeof(Header) <= header_bytes);

thread_local MemoryCategory current_category = MemoryCategory::other;

void raise_to(std::atomic<int64_t>& peak, int64_t value) {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (value > seen && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    if (size == 0) return {nullptr, c10::Device(c10::DeviceType::CPU)};
    Header* header = take(size);
    header->size = size;
    header->category = int(current_category);
    count(header->category, int64_t(size));
    raise_to(largest_, int64_t(size));
    void* data = reinterpret_cast<char*>(header) + header_bytes;
    return {data, data, &CountingAllocator::release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &CountingAllocator::release; }
  void copy_data(void* to, const void* from, size_t count) const override { std::memcpy(to, from, count); }

  MemoryUsage usage() const {
    MemoryUsage usage;
    for (int i = 0; i < num_memory_categories; ++i) {
      usage.live[i] = live_[i];
      usage.peak[i] = peak_[i];
    }
    usage.live_total = live_total_;
    usage.peak_total = peak_total_;
    usage.largest_block = largest_;
    return usage;
  }
  void reset_peak() {
    for (int i = 0; i < num_memory_categories; ++i) peak_[i] = live_[i].load();
    peak_total_ = live_total_.load();
    largest_ = 0;
  }

  static CountingAllocator& instance() {
    static auto* allocator = new CountingAllocator;  // outlives every tensor, static ones too
    return *allocator;
  }

 private:
  static void release(void* data) {
    if (!data) return;
    auto* header = reinterpret_cast<Header*>(static_cast<char*>(data) - header_bytes);
    instance().give(header);
  }

  Header* take(size_t size) {
    const bool is_small = size <= largest_small;
    const size_t capacity = is_small ? smallest << small_list(size) : (size + 63) / 64 * 64;
    {
      const std::lock_guard lock(mutex_);
      if (Header* header = is_small ? take_small(small_list(size)) : take_large(size)) return header;
    }
    void* memory = std::aligned_alloc(header_bytes, header_bytes + capacity);
    if (!memory) throw std::bad_alloc();
    auto* header = static_cast<Header*>(memory);
    header->capacity = capacity;
    return header;
  }

  Header* take_small(int list) {
    Header* header = small_[size_t(list)];
    if (header) small_[size_t(list)] = header->next;
    return header;
  }

  Header* take_large(size_t size) {
    const auto block = large_.lower_bound(size);
    if (block == large_.end() || block->first > size + size / 8) return nullptr;
    Header* header = block->second;
    large_.erase(block);
    return header;
  }

  void give(Header* header) {
    count(header->category, -int64_t(header->size));
    const std::lock_guard lock(mutex_);
    if (header->capacity > largest_small) {
      large_.emplace(header->capacity, header);
      return;
    }
    Header*& list = small_[size_t(small_list(header->capacity))];
    header->next = list;
    list = header;
  }

  void count(int category, int64_t bytes) {
    raise_to(peak_[category], live_[category] += bytes);
    raise_to(peak_total_, live_total_ += bytes);
  }

  std::mutex mutex_;
  std::array<Header*, num_small_lists> small_{};
  std::multimap<size_t, Header*> large_;
  std::array<std::atomic<int64_t>, num_memory_categories> live_{}, peak_{};
  std::atomic<int64_t> live_total_{0}, peak_total_{0}, largest_{0};
};

int64_t status_kib(const char* key) {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (!file) return 0;
  char line[256];
  long long kib = 0;
  while (std::fgets(line, sizeof line, file))
    if (std::strncmp(line, key, std::strlen(key)) == 0) std::sscanf(line + std::strlen(key), "%lld", &kib);
  std::fclose(file);
  return kib * 1024;
}

}  // namespace

const char* to_string(MemoryCategory category) {
  constexpr const char* names[] = {"parameters",  "gathered", "gradients",     "optimizer",
                                   "activations", "logits",   "communication", "other"};
  return names[int(category)];
}

MemoryScope::MemoryScope(MemoryCategory category) : previous_(current_category) { current_category = category; }
MemoryScope::~MemoryScope() { current_category = previous_; }

void install_allocator() { c10::SetCPUAllocator(&CountingAllocator::instance(), /*priority=*/100); }
MemoryUsage memory_usage() { return CountingAllocator::instance().usage(); }
void reset_memory_peak() { CountingAllocator::instance().reset_peak(); }
int64_t peak_resident_bytes() { return status_kib("VmHWM:"); }
int64_t resident_bytes() { return status_kib("VmRSS:"); }

}  // namespace wmtp
