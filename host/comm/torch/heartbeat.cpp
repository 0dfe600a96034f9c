#include "comm/torch/heartbeat.hpp"

#include <algorithm>
#include <csignal>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace wmtp {
namespace {

using std::chrono::milliseconds;
constexpr int beats_within_timeout = 8;
constexpr milliseconds max_pause{5000};
constexpr milliseconds max_poll_gap{500};  // longer: the asking process was stopped meanwhile

std::string heartbeat_key(int rank) { return "heartbeat/" + std::to_string(rank); }

}  // namespace

Heartbeat::Heartbeat(c10::intrusive_ptr<c10d::Store> store, int rank, Milliseconds timeout)
    : store_(std::move(store)), key_(heartbeat_key(rank)), every_(std::min(timeout / beats_within_timeout, max_pause)) {
  // Other threads handle signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { beat(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void Heartbeat::beat() {
  std::unique_lock lock(mutex_);
  try {
    while (!stopped_) {
      lock.unlock();
      store_->add(key_, 1);
      lock.lock();
      stopping_.wait_for(lock, every_, [this] { return stopped_; });
    }
  } catch (const std::exception&) {  // the store is gone, which the next exchange reports
  }
}

milliseconds HeartbeatMonitor::now() {
  const int64_t beats = store_.add(heartbeat_key(rank_), 0);
  const auto checked = Clock::now();
  silent_ =
      beats == beats_ ? silent_ + std::min<Clock::duration>(checked - checked_, max_poll_gap) : Clock::duration{0};
  beats_ = beats;
  checked_ = checked;
  return std::chrono::duration_cast<milliseconds>(silent_);
}

}  // namespace wmtp
