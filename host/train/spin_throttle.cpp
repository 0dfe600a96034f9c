#include "train/spin_throttle.hpp"

#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <system_error>
#include <utility>

namespace wmtp {
namespace {

/// Fraction of the elapsed time. One busy process makes two threads on two cores wait for half of it.
constexpr double busy = 0.25;
constexpr std::chrono::milliseconds check_interval{100};
constexpr int checks_until_held = 3, min_hold_checks = 20, max_hold_checks = 100, checks_of_trial = 10;

}  // namespace

double seconds_without_core() {
  double nanoseconds = 0;
  std::error_code gone;
  for (std::filesystem::directory_iterator task("/proc/self/task", gone), end; task != end; task.increment(gone)) {
    double running = 0, waiting = 0;
    std::ifstream(task->path() / "schedstat") >> running >> waiting;
    nanoseconds += waiting;
  }
  return nanoseconds * 1e-9;
}

bool HoldDecision::after_check(double share) {
  busy_checks_ = share > busy ? busy_checks_ + 1 : 0;
  ++since_change_;
  const bool held = holds_, is_trial = length_ > 0 && since_change_ <= checks_of_trial;
  if (held) {
    holds_ = since_change_ < length_;
  } else if (busy_checks_ >= (is_trial ? 1 : checks_until_held)) {
    holds_ = true;
    length_ = is_trial ? std::min(2 * length_, max_hold_checks) : min_hold_checks;
  }
  if (holds_ != held) busy_checks_ = since_change_ = 0;
  return holds_;
}

SpinThrottle::SleepingTeam::SleepingTeam() {
  leader_ = std::thread([this] {
#pragma omp parallel num_threads(omp_get_num_procs())
    end_.wait();
  });
}

SpinThrottle::SleepingTeam::~SleepingTeam() {
  end_.count_down();
  leader_.join();
}

SpinThrottle::SpinThrottle(std::function<double()> waited)
    : read_waited_(std::move(waited)), checked_(Clock::now()), waited_(read_waited_()) {
  if (at::get_num_threads() > 1) watcher_ = std::jthread([this](std::stop_token stop) { watch(std::move(stop)); });
}

void SpinThrottle::watch(std::stop_token stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  while (!stopped.wait_for(lock, stop, check_interval, [&] { return stop.stop_requested(); })) check();
}

void SpinThrottle::check() {
  const auto now = Clock::now();
  const double waited = read_waited_();
  // The sum decreases when a thread ends, because its waiting time is no longer counted.
  const double share = std::max(0.0, waited - waited_) / std::chrono::duration<double>(now - checked_).count();
  checked_ = now;
  waited_ = waited;
  const bool holds = decision_.after_check(share);
  try {
    if (holds && !team_) team_ = std::make_unique<SleepingTeam>();
  } catch (const std::system_error&) {  // no further thread can be started: training continues as before
  }
  if (!holds) team_.reset();
  is_held_ = holds;
}

}  // namespace wmtp
