#include "comm/torch/pulse.hpp"

#include <algorithm>
#include <csignal>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace wmtp {
namespace {

using std::chrono::milliseconds;
constexpr int beats_within_timeout = 8;
constexpr milliseconds longest_pause{5000};
constexpr milliseconds longest_between_questions{500};  // longer: the asking process was stopped meanwhile

std::string pulse_key(int rank) { return "pulse/" + std::to_string(rank); }

}  // namespace

Pulse::Pulse(c10::intrusive_ptr<c10d::Store> store, int rank, Milliseconds timeout)
    : store_(std::move(store)), key_(pulse_key(rank)), every_(std::min(timeout / beats_within_timeout, longest_pause)) {
  // Other threads handle signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { beat(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Pulse::~Pulse() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void Pulse::beat() {
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

milliseconds Silence::now() {
  const int64_t beats = store_.add(pulse_key(rank_), 0);
  const auto asked = Clock::now();
  silent_ = beats == beats_ ? silent_ + std::min<Clock::duration>(asked - asked_, longest_between_questions)
                            : Clock::duration{0};
  beats_ = beats;
  asked_ = asked;
  return std::chrono::duration_cast<milliseconds>(silent_);
}

}  // namespace wmtp
