#include "memory.hpp"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "settings.hpp"

namespace null_cuda {
namespace {

constexpr int touched_by_host = 97;
constexpr size_t granularity = size_t(2) << 20;  // as of cudaMalloc
constexpr size_t page = 4096;

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

char* reserve(size_t bytes, int protection) {
  void* at = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    std::perror("null_cuda: cannot reserve the device's addresses");
    _exit(1);
  }
  return static_cast<char*>(at);
}

/// First fit, with adjacent free blocks joined.
class Device {
 public:
  Device()
      : bytes_(size_t(settings().megabytes) << 20),
        addresses_(reserve(bytes_, PROT_NONE)),
        shadow_(reserve(bytes_, PROT_READ | PROT_WRITE)) {
    free_[0] = bytes_;
    struct sigaction action {};
    action.sa_sigaction = &Device::on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
  }

  void* take(size_t bytes) {
    bytes = rounded(bytes, granularity);
    const std::lock_guard lock(mutex_);
    for (auto block = free_.begin(); block != free_.end(); ++block) {
      if (block->second < bytes) continue;
      const auto [begin, size] = *block;
      free_.erase(block);
      if (size > bytes) free_[begin + bytes] = size - bytes;
      taken_[begin] = bytes;
      in_use_ += bytes;
      if (settings().computes) std::memset(shadow_ + begin, 0xff, bytes);
      return addresses_ + begin;
    }
    return nullptr;
  }

  bool give_back(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto block = taken_.find(size_t(static_cast<const char*>(address) - addresses_));
    if (block == taken_.end()) return false;
    auto [begin, size] = *block;
    taken_.erase(block);
    in_use_ -= size;
    madvise(shadow_ + begin, size, MADV_DONTNEED);
    auto after = free_.upper_bound(begin);
    if (after != free_.end() && after->first == begin + size) {
      size += after->second;
      after = free_.erase(after);
    }
    if (after != free_.begin() && std::prev(after)->first + std::prev(after)->second == begin)
      std::prev(after)->second += size;
    else
      free_[begin] = size;
    return true;
  }

  bool holds(const void* address) const { return address >= addresses_ && address < addresses_ + bytes_; }
  char* shadow(const void* address) const { return shadow_ + (static_cast<const char*>(address) - addresses_); }
  size_t bytes() const { return bytes_; }
  size_t in_use() const { return in_use_; }

 private:
  static void on_fault(int, siginfo_t* fault, void*);

  const size_t bytes_;
  char *const addresses_, *const shadow_;
  struct sigaction before_ {};
  std::mutex mutex_;
  std::map<size_t, size_t> free_, taken_;
  size_t in_use_ = 0;
};

Device& device() {
  static Device* const only = new Device;  // never destroyed, so that it outlives all static objects
  return *only;
}

void Device::on_fault(int, siginfo_t* fault, void*) {
  if (!device().holds(fault->si_addr)) {
    sigaction(SIGSEGV, &device().before_, nullptr);  // repeats the access
    return;
  }
  constexpr char message[] = "null_cuda: the host accesses device memory\n";
  (void)!write(STDERR_FILENO, message, sizeof message - 1);
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  _exit(touched_by_host);
}

struct Pinned {
  std::mutex mutex;
  std::map<const char*, size_t> blocks;
};

Pinned& pinned() {
  static Pinned* const all = new Pinned;
  return *all;
}

}  // namespace

void* allocate(size_t bytes) { return device().take(bytes); }
bool release(void* address) { return device().give_back(address); }
size_t capacity() { return device().bytes(); }
size_t in_use() { return device().in_use(); }
bool on_device(const void* address) { return device().holds(address); }
char* shadow(const void* address) {
  return on_device(address) ? device().shadow(address) : static_cast<char*>(const_cast<void*>(address));
}

void* allocate_pinned(size_t bytes) {
  void* at = std::aligned_alloc(page, rounded(bytes, page));
  const std::lock_guard lock(pinned().mutex);
  pinned().blocks[static_cast<char*>(at)] = bytes;
  return at;
}

void release_pinned(void* address) {
  const std::lock_guard lock(pinned().mutex);
  if (pinned().blocks.erase(static_cast<char*>(address)) == 1) std::free(address);
}

bool is_pinned(const void* address) {
  const auto* at = static_cast<const char*>(address);
  const std::lock_guard lock(pinned().mutex);
  const auto after = pinned().blocks.upper_bound(at);
  return after != pinned().blocks.begin() && at < std::prev(after)->first + std::prev(after)->second;
}

}  // namespace null_cuda
