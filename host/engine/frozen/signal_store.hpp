// SignalStore: what a frozen model says of each window (losses, entropies, values), kept in a file, so that the second
// epoch and the next run need not compute it. A cache: it never fails a run and never gives wrong numbers; what is
// torn, missing or damaged is unknown. Knows no LibTorch.
//
// FOLDER/<first 32 digits of the header's sha256>.f32, little-endian: the header (format, values per window, the key's
// full text, zeros up to a multiple of 4,096 bytes), then one record per window at header + window * record: fp32
// values and a CRC-32C over header, window and values, of which 0 is written as 0xffffffff, so that a hole is no
// record. The header follows from key and size alone and records are checked one by one: processes need no lock. Holes
// take no room on a file system that knows sparse files. Nothing is synced: after a power cut some records are unknown
// again.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace wmtp {

class SignalStore {
 public:
  /// Told at most once for each store, in words for a person, why signals are not or no longer kept; by the thread that
  /// found out. The store only reads from then on, or neither reads nor writes.
  using Tell = std::function<void(const std::string& message)>;

  /// Opens or makes the file, and its folder. `key` says all that the signals depend on but the window's index: model,
  /// data, signal, precision. Error(bug): values_per_window below 1.
  SignalStore(const std::filesystem::path& folder, const std::string& key, int64_t values_per_window, Tell tell);
  ~SignalStore();
  SignalStore(const SignalStore&) = delete;
  SignalStore& operator=(const SignalStore&) = delete;

  /// Fills `values` [values_per_window] with what was written for the window; false: not known, and they hold anything.
  /// [any thread] Error(bug): a window outside 0 … 2^40-1; so does write().
  bool read(int64_t window, float* values) const;
  /// Threads and processes may write at once, also the same window: the last one stays, or none. [any thread]
  void write(int64_t window, const float* values);

  const std::filesystem::path& file() const { return file_; }
  int64_t values_per_window() const { return int64_t(value_bytes_ / sizeof(float)); }

 private:
  void open_file();
  void check_header();
  void stop(const std::string& why, bool reads) const;
  int64_t offset_of(int64_t window) const;
  uint32_t sum_of(int64_t window, const float* values) const;

  std::string header_;
  std::filesystem::path file_;
  size_t value_bytes_;
  uint32_t header_sum_;
  uint64_t largest_file_;  ///< of the process's limit: the kernel's answer to passing it is a signal that kills
  Tell tell_;
  int descriptor_ = -1;
  mutable std::atomic<bool> reads_ = true, writes_ = true, told_ = false;
};

}  // namespace wmtp
