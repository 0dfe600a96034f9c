// SharedRings: shared memory of processes on one host, through which each sends the others a byte stream. Every process
// writes to its own ring of `capacity` bytes; all others read the bytes or skip those not meant for them, and bytes
// that all have read are overwritten. No locks, and system calls only to sleep and to wake: each position in a ring has
// a single writer.
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
  /// For `size` processes, of which this is the first. nullopt if the system does not support it.
  static std::optional<SharedRings> create(int size, int64_t capacity);
  /// The address for attach(), valid while the creating process lives.
  std::string address() const;
  /// Attaches as process `index`. nullopt if the address is from another host or container.
  static std::optional<SharedRings> attach(const std::string& address, int index);

  SharedRings(SharedRings&& other) noexcept;
  SharedRings& operator=(SharedRings&&) = delete;
  ~SharedRings();

  int index() const { return index_; }
  int size() const { return size_; }
  /// Enables has_ended(). False if the system cannot watch processes. [all processes, after all have attached]
  bool watch_others();

  /// Writes as many of these bytes as fit; returns their number.
  int64_t put(const char* from, int64_t bytes);
  /// Copies up to `bytes` available bytes of `source`; returns their number. If `to` is null, skips them.
  int64_t take(int source, char* to, int64_t bytes);
  /// Bytes written by this process that `reader` has not taken yet.
  int64_t unread_by(int reader) const;

  /// Changes with every put, take and hang_up of any other process.
  uint32_t changes() const;
  /// Sleeps until changes() differs from `seen`, at most for `longest`.
  void sleep(uint32_t seen, std::chrono::milliseconds longest);
  /// Makes is_hung_up() true in all processes and wakes them. [any thread]
  void hang_up();
  bool is_hung_up() const;
  /// Whether that process has ended for any reason.
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
