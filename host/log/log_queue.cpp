#include "log/log_queue.hpp"

#include <iterator>

namespace wmtp {

bool LogQueue::push(LogRecord record) {
  const int64_t rows = num_rows(record);
  {
    std::lock_guard lock(mutex_);
    if (rows_ + rows > most_rows) return false;
    rows_ += rows;
    records_.push_back(std::move(record));
  }
  changed_.notify_one();
  return true;
}

bool LogQueue::take(std::deque<LogRecord>& into, std::chrono::milliseconds longest) {
  std::deque<LogRecord> taken;
  bool flushes = false;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, longest, [&] { return stopped_ || !records_.empty() || flushes_begun_ > flushes_seen_; });
    taken.swap(records_);
    flushes_seen_ = flushes_begun_;
    flushes = flushes_seen_ > flushes_ended_;
  }
  if (into.empty()) {
    into.swap(taken);
  } else {
    std::move(taken.begin(), taken.end(), std::back_inserter(into));
  }
  return flushes;
}

void LogQueue::release(int64_t rows) {
  std::lock_guard lock(mutex_);
  rows_ -= rows;
}

void LogQueue::end_flushes() {
  {
    std::lock_guard lock(mutex_);
    flushes_ended_ = flushes_seen_;
  }
  flushed_.notify_all();
}

bool LogQueue::stopped_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [&] { return stopped_ || flushes_begun_ > flushes_seen_; });
  return stopped_;
}

void LogQueue::flush(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  const int64_t mine = ++flushes_begun_;
  changed_.notify_one();
  flushed_.wait_for(lock, longest, [&] { return stopped_ || flushes_ended_ >= mine; });
}

void LogQueue::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  flushed_.notify_all();
}

}  // namespace wmtp
