// Progress of long work: nothing for two seconds, then a status line. Drawn by its own thread, so that the display also
// advances while a single step takes minutes.
//
//   WorkProgress progress("encoding train", bytes, WorkProgress::Unit::bytes);
//   … progress.advance(piece); …                          rho1: encoding train: 12.3 MiB of 28.2 MiB, 8s left
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace wmtp {

/// [while no progress exists] For --quiet and --json, and for all ranks but one.
void hide_progress();
bool progress_is_hidden();
/// [while no progress exists] A prefix, the name of the run: "rho1". "": none.
void set_progress_prefix(const std::string& who);

class WorkProgress {
 public:
  enum class Unit { pieces, bytes };
  /// With `total` 0 only the time is shown.
  explicit WorkProgress(std::string what, int64_t total = 0, Unit unit = Unit::pieces);
  /// Clears its line.
  ~WorkProgress();
  WorkProgress(const WorkProgress&) = delete;

  /// [any thread]
  void advance(int64_t more) { done_ += more; }

 private:
  void show_until(const std::stop_token& stop);

  const std::string what_;
  const int64_t total_;
  const Unit unit_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::atomic<int64_t> done_{0};
  bool shown_ = false;  ///< owned by the thread until it has ended
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  ///< last, because it uses the other members
};

namespace detail {
/// The text of the status line after `seconds`.
std::string progress_text(const std::string& what, int64_t done, int64_t total, WorkProgress::Unit unit,
                          double seconds);
}  // namespace detail

}  // namespace wmtp
