// FlightRecord: this rank's last collectives, so that the loss of a rank can be reported with its step and
// investigated. [any thread; the training thread begins and ends collectives]
#pragma once

#include <c10/core/Event.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "comm/torch/c10d_names.hpp"

namespace wmtp {

class FlightRecord {
 public:
  /// More than the host can issue before the device has reached them: CUDA queues about a thousand launches, and there
  /// are ten between two collectives.
  static constexpr int64_t capacity = 256;

  FlightRecord();
  ~FlightRecord();

  /// The optimizer step of collectives that begin from now on; 0 before the first step.
  void set_step(int64_t step);
  /// The folder for write(). If empty, nothing is written.
  void set_folder(std::filesystem::path folder) { folder_ = std::move(folder); }

  /// Records the start of a collective: its purpose ("gathering layers.3"), its operation ("all-gather"), and the bytes
  /// that this rank receives. Returns its number, for end() and describe().
  int64_t begin(const std::string& what, const char* operation, int64_t bytes);
  /// Call before a collective of a device is issued on its current stream.
  void mark(int64_t number, c10::Device device);
  /// The thread no longer waits. `on_device`: what the device may still wait for, of which text() queries the
  /// completion. It is kept, so it must not hold the collective's tensors.
  void end(int64_t number, c10::intrusive_ptr<c10d::Work> on_device = {});
  /// "step 17: gathering layers.3 (all-gather, 1.2 MiB)"
  std::string describe(int64_t number) const;
  /// Describes the collective that began last. [there is one]
  std::string newest() const;

  /// A device that has failed, and so cannot be asked, has reached nothing.
  struct Progress {
    int64_t reached = 0;  ///< the device has computed everything before this collective
    std::string next;     ///< describes the first one that the device has not reached; empty: it has reached all
  };
  /// How far the device has come; nothing if no collective is marked.
  std::optional<Progress> device_progress() const;

  /// The last `capacity` collectives, oldest first, one per line; unfinished ones are marked.
  std::string text() const;
  /// Writes an earlier text() to flight-RRRR.txt in the folder. False without a folder or if writing fails.
  bool write(int rank, const std::string& text) const noexcept;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  using Clock = std::chrono::system_clock;
  struct Entry {
    std::string what;
    const char* operation = "";
    int64_t bytes = 0, step = 0;
    Clock::time_point begun, ended;
    bool has_ended = false, is_marked = false;
    c10::intrusive_ptr<c10d::Work> on_device;
    bool is_complete() const;
  };
  const Entry& entry(int64_t number) const { return entries_[size_t(number % capacity)]; }
  bool is_reached(int64_t number) const;
  std::string description(int64_t number) const;

  mutable std::mutex mutex_;  ///< of everything below
  std::array<Entry, capacity> entries_;
  std::array<std::optional<c10::Event>, capacity> marks_;  ///< of the entries that are marked, used repeatedly
  int64_t count_ = 0;
  int64_t step_ = 0;
  std::filesystem::path folder_;
};

}  // namespace wmtp
