#include "comm/torch/shared_rings.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "base/round_up.hpp"

namespace wmtp {
namespace {

constexpr const char* memory_name = "wmtp-rings";
constexpr int64_t page = 4096;
constexpr int64_t line = 64;  // bytes per cache line: values written by different processes are on separate lines

uint64_t drawn() {
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

template <class T>
T load(T& value) {
  return std::atomic_ref<T>(value).load(std::memory_order_acquire);
}
template <class T>
void store(T& value, T next) {
  std::atomic_ref<T>(value).store(next, std::memory_order_release);
}

/// Calls copy for a byte range of a ring, twice if it wraps around.
template <class Copy>
void in_ring(char* ring, int64_t capacity, uint64_t position, int64_t bytes, Copy copy) {
  const int64_t begin = int64_t(position % uint64_t(capacity)), first = std::min(bytes, capacity - begin);
  copy(ring + begin, int64_t{0}, first);
  if (first < bytes) copy(ring, first, bytes - first);
}

}  // namespace

/// The memory layout: header, one Process each, every reader's position in every ring (row: the ring's writer), rings.
struct SharedRings::Layout {
  struct Header {
    uint64_t token;  ///< also in the address, to detect a different file with the same number
    int64_t size, capacity;
    uint32_t hung_up;
  };
  struct Process {
    alignas(line) uint64_t written;  ///< bytes written to its ring since the start
    uint32_t pid;
    alignas(line) uint32_t changes;
    uint32_t sleeps;
  };
  struct alignas(line) RingPosition {
    uint64_t read;
  };

  static int64_t bytes(int64_t size, int64_t capacity) { return rings(size) + size * capacity; }
  static Header& header(const SharedRings& of) { return *reinterpret_cast<Header*>(of.memory_); }
  static Process& process(const SharedRings& of, int index) {
    return reinterpret_cast<Process*>(of.memory_ + page)[index];
  }
  static RingPosition& place(const SharedRings& of, int writer, int reader) {
    auto* places = reinterpret_cast<RingPosition*>(of.memory_ + page + of.size_ * int64_t(sizeof(Process)));
    return places[writer * of.size_ + reader];
  }
  static char* ring(const SharedRings& of, int index) { return of.memory_ + rings(of.size_) + index * of.capacity_; }
  static int64_t rings(int64_t size) {
    return round_up(page + size * int64_t(sizeof(Process)) + size * size * int64_t(sizeof(RingPosition)), page);
  }
};

SharedRings::SharedRings(int file, char* memory, int index)
    : file_(file),
      memory_(memory),
      index_(index),
      size_(int(Layout::header(*this).size)),
      capacity_(Layout::header(*this).capacity) {
  store(Layout::process(*this, index_).pid, uint32_t(getpid()));
}

SharedRings::SharedRings(SharedRings&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      memory_(std::exchange(other.memory_, nullptr)),
      index_(other.index_),
      size_(other.size_),
      capacity_(other.capacity_),
      processes_(std::move(other.processes_)) {
  other.processes_.clear();
}

SharedRings::~SharedRings() {
  for (const int process : processes_)
    if (process >= 0) close(process);
  if (memory_) munmap(memory_, size_t(Layout::bytes(size_, capacity_)));
  if (file_ >= 0) close(file_);
}

std::optional<SharedRings> SharedRings::create(int size, int64_t capacity) {
  capacity = round_up(capacity, page);
  const int64_t bytes = Layout::bytes(size, capacity);
  const int file = memfd_create(memory_name, MFD_CLOEXEC);
  if (file < 0) return {};
  void* memory = MAP_FAILED;
  if (ftruncate(file, bytes) == 0) memory = mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    close(file);
    return {};
  }
  auto* header = static_cast<Layout::Header*>(memory);
  header->token = drawn();
  header->size = size;
  header->capacity = capacity;
  return SharedRings(file, static_cast<char*>(memory), 0);
}

std::string SharedRings::address() const {
  return std::to_string(getpid()) + " " + std::to_string(file_) + " " + std::to_string(Layout::header(*this).token);
}

std::optional<SharedRings> SharedRings::attach(const std::string& address, int index) {
  int pid = 0, number = 0;
  unsigned long long token = 0;
  if (std::sscanf(address.c_str(), "%d %d %llu", &pid, &number, &token) != 3) return {};
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  char target[64] = {};  // checked first, because opening an unrelated file may have side effects
  if (readlink(path.c_str(), target, sizeof target - 1) < 0 || !std::strstr(target, memory_name)) return {};
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return {};
  struct stat about {};
  void* memory = MAP_FAILED;
  if (fstat(file, &about) == 0 && about.st_size >= page)
    memory = mmap(nullptr, size_t(about.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return {};
  const auto* header = static_cast<const Layout::Header*>(memory);
  if (header->token != token || index >= header->size) {
    munmap(memory, size_t(about.st_size));
    return {};
  }
  return SharedRings(-1, static_cast<char*>(memory), index);
}

bool SharedRings::watch_others() {
  processes_.assign(size_t(size_), -1);
  for (int other = 0; other < size_; ++other) {
    if (other == index_) continue;
    const auto pid = pid_t(load(Layout::process(*this, other).pid));
    processes_[size_t(other)] = int(syscall(SYS_pidfd_open, pid, 0));
    if (processes_[size_t(other)] < 0) return false;
  }
  return true;
}

int64_t SharedRings::put(const char* from, int64_t bytes) {
  int64_t unread = 0;
  for (int reader = 0; reader < size_; ++reader)
    if (reader != index_) unread = std::max(unread, unread_by(reader));
  bytes = std::min(bytes, capacity_ - unread);
  if (bytes <= 0) return 0;
  uint64_t& written = Layout::process(*this, index_).written;
  in_ring(Layout::ring(*this, index_), capacity_, written, bytes,
          [from](char* to, int64_t begin, int64_t count) { std::memcpy(to, from + begin, size_t(count)); });
  store(written, written + uint64_t(bytes));
  for (int reader = 0; reader < size_; ++reader)
    if (reader != index_) notify(reader);
  return bytes;
}

int64_t SharedRings::take(int source, char* to, int64_t bytes) {
  uint64_t& read = Layout::place(*this, source, index_).read;
  bytes = std::min(bytes, int64_t(load(Layout::process(*this, source).written) - read));
  if (bytes <= 0) return 0;
  if (to)
    in_ring(Layout::ring(*this, source), capacity_, read, bytes,
            [to](const char* from, int64_t begin, int64_t count) { std::memcpy(to + begin, from, size_t(count)); });
  store(read, read + uint64_t(bytes));
  notify(source);
  return bytes;
}

int64_t SharedRings::unread_by(int reader) const {
  return int64_t(Layout::process(*this, index_).written - load(Layout::place(*this, index_, reader).read));
}

uint32_t SharedRings::changes() const { return load(Layout::process(*this, index_).changes); }

/// Raises the counter before reading `sleeps`, while a sleeper sets `sleeps` before reading the counter, so at least
/// one of the two sees the other's change.
void SharedRings::notify(int other) {
  Layout::Process& process = Layout::process(*this, other);
  std::atomic_ref(process.changes).fetch_add(1);
  if (std::atomic_ref(process.sleeps).load() != 0)
    syscall(SYS_futex, &process.changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedRings::sleep(uint32_t seen, std::chrono::milliseconds longest) {
  Layout::Process& mine = Layout::process(*this, index_);
  std::atomic_ref(mine.sleeps).store(1);
  const timespec time{longest.count() / 1000, longest.count() % 1000 * 1'000'000};
  if (std::atomic_ref(mine.changes).load() == seen)
    syscall(SYS_futex, &mine.changes, FUTEX_WAIT, seen, &time, nullptr, 0);
  std::atomic_ref(mine.sleeps).store(0);
}

void SharedRings::hang_up() {
  store(Layout::header(*this).hung_up, uint32_t{1});
  for (int other = 0; other < size_; ++other) notify(other);
}

bool SharedRings::is_hung_up() const { return load(Layout::header(*this).hung_up) != 0; }

bool SharedRings::has_ended(int other) const {
  if (processes_.empty() || processes_[size_t(other)] < 0) return false;
  pollfd process{processes_[size_t(other)], POLLIN, 0};
  return poll(&process, 1, 0) == 1;
}

}  // namespace wmtp
