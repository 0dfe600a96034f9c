// The bounded queue between the training thread and the log's writer. push waits at most for the writer to swap a
// container: no file access and no SQLite call happens under the lock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "log/records.hpp"

namespace wmtp {

class LogQueue {
 public:
  /// Limit on rows in the queue plus rows taken by the writer, about 100 bytes each.
  static constexpr int64_t most_rows = 400'000;

  /// Returns false and drops the record if the queue is full.
  bool push(LogRecord record);

  /// [writer] Appends all records to `into`; waits up to `longest` for a record, for flush or for stop. Returns whether
  /// a flush waits.
  bool take(std::deque<LogRecord>& into, std::chrono::milliseconds longest);
  /// [writer] Frees the capacity of `rows` taken rows after they are written or given up.
  void release(int64_t rows);
  /// [writer] All that it has taken is on disk, or cannot be written: ends the flushes that take() has seen.
  void end_flushes();
  /// [writer] Waits up to `time`, or until flush or stop is called; true if stop was.
  bool stopped_within(std::chrono::milliseconds time);

  /// Waits up to `longest` until what has been pushed is on disk, or cannot be written, or stop is called.
  void flush(std::chrono::milliseconds longest);
  void stop();

 private:
  std::mutex mutex_;
  std::condition_variable changed_, flushed_;
  std::deque<LogRecord> records_;
  int64_t rows_ = 0;
  int64_t flushes_begun_ = 0, flushes_seen_ = 0, flushes_ended_ = 0;
  bool stopped_ = false;
};

}  // namespace wmtp
