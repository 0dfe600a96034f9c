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

void LogQueue::take(std::deque<LogRecord>& into, std::chrono::milliseconds longest) {
  std::deque<LogRecord> taken;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, longest, [&] { return stopped_ || !records_.empty(); });
    taken.swap(records_);
  }
  if (into.empty()) {
    into.swap(taken);
  } else {
    std::move(taken.begin(), taken.end(), std::back_inserter(into));
  }
}

void LogQueue::release(int64_t rows) {
  std::lock_guard lock(mutex_);
  rows_ -= rows;
}

bool LogQueue::stopped_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return stopped_; });
}

void LogQueue::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

}  // namespace wmtp
