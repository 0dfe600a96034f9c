#include "engine/run/spin_throttle.hpp"

#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <utility>

namespace wmtp {
namespace {

// Fractions of the elapsed time. One busy process makes two threads on two cores wait for half of it.
constexpr double busy = 0.25, calm = 0.02;
constexpr std::chrono::milliseconds check_interval{100};
constexpr int checks_until_calm = 20;

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
  calm_checks_ = share < calm ? calm_checks_ + 1 : 0;
  if (!team_ && share > busy) team_ = std::make_unique<SleepingTeam>();
  if (team_ && calm_checks_ >= checks_until_calm) team_.reset();
  is_held_ = team_ != nullptr;
}

}  // namespace wmtp
