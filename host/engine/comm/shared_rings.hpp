// SharedRings: memory that the processes of one host have in common, through which each sends the others an endless
// stream of bytes. Every process has a ring that holds the last `capacity` bytes of what it put in; all others read
// them, or pass over what is not for them, and what all have read makes room for more. No lock, and no system
// call but to sleep and to wake: how far a ring is written, and how far each has read it, one process alone says.
//
// The memory has no name in any file system, so nothing of it is left behind, however the processes end, and it is not
// bounded by the size of /dev/shm, which is 64 MiB in many containers.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace wmtp {

class SharedRings {
 public:
  /// For `size` processes; this one is the first. Nothing where the system has no such memory.
  static std::optional<SharedRings> create(int size, int64_t capacity);
  /// What attach() finds it by, while the process that created it lives.
  std::string address() const;
  /// As number `index` of those processes. Nothing where the address is of another host or container.
  static std::optional<SharedRings> attach(const std::string& address, int index);

  SharedRings(SharedRings&& other) noexcept;
  SharedRings& operator=(SharedRings&&) = delete;
  ~SharedRings();

  int index() const { return index_; }
  int size() const { return size_; }
  /// Makes the others' processes known, after all have attached: has_ended() then tells of them. False where the system
  /// cannot watch a process. [all processes]
  bool watch_others();

  /// Puts in as many of these bytes as fit; returns how many.
  int64_t put(const char* from, int64_t bytes);
  /// Copies the next bytes of `source` that are there, at most so many; returns how many. `to` null: passes over them.
  int64_t take(int source, char* to, int64_t bytes);
  /// Bytes that process `reader` has not yet taken of what this one put in.
  int64_t unread_by(int reader) const;

  /// Changes with every put, take and hang_up of another process.
  uint32_t news() const;
  /// Sleeps until news() is other than `seen`, for at most `longest`.
  void sleep(uint32_t seen, std::chrono::milliseconds longest);
  /// Tells all that nothing more will come of this. [any thread]
  void hang_up();
  bool is_hung_up() const;
  /// Whether that process has ended, however.
  bool has_ended(int other) const;

 private:
  struct Layout;
  SharedRings(int file, char* memory, int index);
  void tell(int other);
  int file_;
  char* memory_;
  int index_, size_;
  int64_t capacity_;
  std::vector<int> processes_;  ///< a pidfd of each; -1 of this one
};

}  // namespace wmtp
