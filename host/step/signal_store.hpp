// SignalStore: a file with a frozen model's signal (losses, entropies or values) for each window, so that a second
// epoch and later runs do not recompute it. As a cache it never fails a run and never returns wrong numbers; a torn,
// missing or damaged record counts as missing.
//
// FOLDER/<first 32 digits of the header's sha256>.f32, little-endian: the header (format, values per window, the key's
// full text, zeros up to a multiple of 4,096 bytes), then one record per window at header + window * record: fp32
// values and a CRC-32C over header, window and values; a checksum of 0 is stored as 0xffffffff, so that a hole is not a
// valid record. The header depends only on key and size, and each record has its own checksum, so processes need no
// lock. Holes take no space on a file system with sparse files. Nothing is synced: after a power failure some records
// may be missing.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/files.hpp"

namespace wmtp {

class SignalStore {
 public:
  /// Called at most once per store, by the thread that detects the problem, with the reason why signals are not or no
  /// longer cached. From then on the store only reads, or neither reads nor writes.
  using Warn = std::function<void(const std::string& message)>;

  /// Opens or creates the file and its folder. `key` contains everything that the signals depend on except the window's
  /// index: model, data, signal, precision. Error(bug): values_per_window below 1.
  SignalStore(const std::filesystem::path& folder, const std::string& key, int64_t values_per_window, Warn warn);

  /// Reads the window's record into `values` [values_per_window]. False: missing, and `values` is unspecified. Like
  /// write(), Error(bug) for a window outside 0 … 2^40-1. [any thread]
  bool read(int64_t window, float* values) const;
  /// Threads and processes may write concurrently, even one window: the last record survives, or none. [any thread]
  void write(int64_t window, const float* values);

  const std::filesystem::path& file() const { return file_; }
  int64_t values_per_window() const { return int64_t(value_bytes_ / sizeof(float)); }

 private:
  void open_file();
  void check_header();
  void stop(const std::string& why, bool reads) const;
  int64_t record_offset(int64_t window) const;
  uint32_t record_checksum(int64_t window, const float* values) const;

  std::string header_;
  std::filesystem::path file_;
  size_t value_bytes_;
  uint32_t header_sum_;
  uint64_t largest_file_;  ///< the process's file size limit: exceeding it raises a signal that ends the process
  Warn warn_;
  FileDescriptor descriptor_;
  mutable std::atomic<bool> reads_ = true, writes_ = true, warned_ = false;
};

}  // namespace wmtp
