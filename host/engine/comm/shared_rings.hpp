// SharedRings: shared memory of processes on one host, through which each sends the others an endless byte stream. Every
// process has a ring of `capacity` bytes that it writes; all others read them or skip those not meant for them, and
// bytes that all have read are overwritten. No locks, and system calls only to sleep and to wake: each position in a
// ring is written by a single process.
//
// The memory has no name in any file system, so nothing remains of it however the processes end, and it is not limited
// by the size of /dev/shm, which is 64 MiB in many containers.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace wmtp {

class SharedRings {
 public:
  /// For `size` processes; this one is the first. None if the system does not support it.
  static std::optional<SharedRings> create(int size, int64_t capacity);
  /// For attach(), valid while the process that created it lives.
  std::string address() const;
  /// As process `index`. None if the address is from another host or container.
  static std::optional<SharedRings> attach(const std::string& address, int index);

  SharedRings(SharedRings&& other) noexcept;
  SharedRings& operator=(SharedRings&&) = delete;
  ~SharedRings();

  int index() const { return index_; }
  int size() const { return size_; }
  /// Enables has_ended(). False if the system cannot watch processes. [all processes, after all have attached]
  bool watch_others();

  /// Writes as many of these bytes as fit; returns how many.
  int64_t put(const char* from, int64_t bytes);
  /// Copies up to `bytes` available bytes of `source`; returns how many. `to` null: skips them.
  int64_t take(int source, char* to, int64_t bytes);
  /// Bytes written by this process that `reader` has not taken yet.
  int64_t unread_by(int reader) const;

  /// Changes with every put, take and hang_up of another process.
  uint32_t news() const;
  /// Sleeps until news() differs from `seen`, for at most `longest`.
  void sleep(uint32_t seen, std::chrono::milliseconds longest);
  /// Makes is_hung_up() true in all processes and wakes them. [any thread]
  void hang_up();
  bool is_hung_up() const;
  /// Whether that process has ended, in any way.
  bool has_ended(int other) const;

 private:
  struct Layout;
  SharedRings(int file, char* memory, int index);
  void notify(int other);
  int file_;
  char* memory_;
  int index_, size_;
  int64_t capacity_;
  std::vector<int> processes_;  ///< pidfds; -1 for this one
};

}  // namespace wmtp
