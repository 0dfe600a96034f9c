// What is shown of work that takes long: nothing in its first two seconds, then how far it is, by a status line. A
// thread of its own does it, so that one also sees that a step which takes minutes has not ended.
//
//   WorkProgress progress("encoding train", bytes, WorkProgress::Unit::bytes);
//   … progress.done(piece); …                          rho1: encoding train: 12.3 MiB of 28.2 MiB, 8s left
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace wmtp {

/// [while nothing is shown] For --quiet and --json, and for all ranks but one.
void hide_progress();
bool progress_is_hidden();
/// [while nothing is shown] Whose work it is: "rho1". "" leaves it out.
void name_progress(const std::string& who);

class WorkProgress {
 public:
  enum class Unit { pieces, bytes };
  /// Of work whose size is not known only the time is shown.
  explicit WorkProgress(std::string what, int64_t total = 0, Unit unit = Unit::pieces);
  /// Takes its line away, if it was shown.
  ~WorkProgress();
  WorkProgress(const WorkProgress&) = delete;

  /// [any thread]
  void done(int64_t more) { done_ += more; }

 private:
  void show_until(const std::stop_token& stop);

  const std::string what_;
  const int64_t total_;
  const Unit unit_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::atomic<int64_t> done_{0};
  bool shown_ = false;  ///< the thread's, until it has ended
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  ///< last: it uses the others
};

namespace detail {
/// What is shown after so many seconds.
std::string progress_text(const std::string& what, int64_t done, int64_t total, WorkProgress::Unit unit,
                          double seconds);
}  // namespace detail

}  // namespace wmtp
