// FlightRecord: this rank's last collectives, so that the loss of a rank can be reported with its step and
// investigated. [training thread]
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/comm/c10d_names.hpp"

namespace wmtp {

class FlightRecord {
 public:
  static constexpr int64_t capacity = 64;

  FlightRecord();
  ~FlightRecord();

  /// The optimizer step of collectives that begin from now on; 0 before the first step.
  void set_step(int64_t step) { step_ = step; }
  /// The folder for write(). If empty, nothing is written.
  void set_folder(std::filesystem::path folder) { folder_ = std::move(folder); }

  /// Records the start of a collective: its purpose ("gathering layers.3"), its operation ("all-gather"), and the bytes
  /// that this rank receives. Returns its number, for end() and describe().
  int64_t begin(const std::string& what, const char* operation, int64_t bytes);
  /// The thread no longer waits.
  void end(int64_t number);
  /// The thread no longer waits, but the device still does; text() queries its completion.
  void end(int64_t number, c10::intrusive_ptr<c10d::Work> on_device);
  /// "step 17: gathering layers.3 (all-gather, 1.2 MiB)"
  std::string describe(int64_t number) const;

  /// The last `capacity` collectives, oldest first, one per line; unfinished ones are marked.
  std::string text() const;
  /// Writes text() to flight-RRRR.txt in the folder. False without a folder or if writing fails.
  bool write(int rank) const noexcept;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  using Clock = std::chrono::system_clock;
  struct Entry {
    std::string what;
    const char* operation = "";
    int64_t bytes = 0, step = 0;
    Clock::time_point begun, ended;
    bool has_ended = false;
    c10::intrusive_ptr<c10d::Work> on_device;
    bool is_complete() const;
  };
  const Entry& entry(int64_t number) const { return entries_[size_t(number % capacity)]; }

  std::array<Entry, capacity> entries_;
  int64_t count_ = 0;
  int64_t step_ = 0;
  std::filesystem::path folder_;
};

}  // namespace wmtp
