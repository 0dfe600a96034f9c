#include "base/work_progress.hpp"

#include <csignal>
#include <system_error>

#include "base/status_line.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

using namespace std::chrono_literals;
constexpr auto before_first = 2000ms, redraw_interval = 200ms, line_interval = 5000ms;

bool is_hidden = false;
std::string owner;

std::string amount(int64_t number, WorkProgress::Unit unit) {
  return unit == WorkProgress::Unit::bytes ? human_bytes(number) : with_thousands(number);
}

}  // namespace

void hide_progress() { is_hidden = true; }

bool progress_is_hidden() { return is_hidden; }
void set_progress_prefix(const std::string& who) { owner = who; }

WorkProgress::WorkProgress(std::string what, int64_t total, Unit unit)
    : what_(owner.empty() ? std::move(what) : owner + ": " + what), total_(total), unit_(unit) {
  if (is_hidden) return;
  sigset_t all, before;  // other threads handle signals
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { show_until(stop); });
  } catch (const std::system_error&) {  // the work does not need it
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

WorkProgress::~WorkProgress() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  if (shown_) const StatusPause gone;  // clears only its own line, not the training's
}

void WorkProgress::show_until(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto pause = can_draw_status() ? redraw_interval : line_interval;
  for (auto wait = before_first;; wait = pause) {
    stopped_.wait_for(lock, stop, wait, [] { return false; });
    if (stop.stop_requested()) return;
    shown_ = true;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun_;
    show_status(detail::progress_text(what_, done_, total_, unit_, passed.count()));
  }
}

std::string detail::progress_text(const std::string& what, int64_t done, int64_t total, WorkProgress::Unit unit,
                                  double seconds) {
  if (total <= 0) return what + ": " + human_seconds(seconds);
  std::string text = what + ": " + amount(done, unit) + " of " + amount(total, unit);
  if (done > 0 && done < total) text += ", " + human_seconds(seconds / double(done) * double(total - done)) + " left";
  return text;
}

}  // namespace wmtp
