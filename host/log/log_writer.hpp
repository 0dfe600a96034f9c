// The thread that owns the database connection between a run's start and its end.
//
// Each wake-up (at most ten per second, and one for each flush) is one transaction: all queued records, and the
// heartbeat if due. A flush makes it and those before it durable. A failed transaction is rolled back and its records
// are kept, in order, for the next attempt:
//   locked   they wait until the lock is released, or until half of the queue's capacity is used;
//   failing  (full, I/O, gone) they wait for 5 s, or until half of the capacity is used; after that, until a
//            transaction succeeds again, the records of every failed wake-up are given up at once.
// Records given up are written to the spool; if that fails too, they wait and are lost when the queue is full. If the
// file was deleted or replaced, its content and all new records go to a new file in the same folder. In each of these
// cases the log is incomplete, which is logged once as a warning and recorded in the run's row as soon as possible,
// until the spool's rows have been added (spool.hpp). Records that are lost with the queue become an event of the
// spool.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>

#include "log/database.hpp"
#include "log/log_queue.hpp"
#include "log/spool.hpp"

namespace wmtp {

class RowWriter;

class LogWriter {
 public:
  LogWriter(Database database, int64_t run_id, const std::string& run_key, std::unique_ptr<RecordSink> sink);
  ~LogWriter();

  /// [any thread] Never waits for file access.
  void push(LogRecord record);
  /// [any thread] Waits up to `longest` until the records pushed so far are on disk. Returns at once if they cannot be
  /// written for another reason than a lock.
  void flush(std::chrono::milliseconds longest) { queue_.flush(longest); }
  /// Writes the remaining queue, waiting at most 15 s for a locked database, and ends the thread.
  void stop();
  /// Whether any row could not be written when it was made.
  bool incomplete() const { return incomplete_ || dropped_ > 0; }
  /// Whether the database still lacks rows; those of the spool may have been added meanwhile. [after stop]
  bool lacks_rows() const;
  /// [after stop]
  void give_up(const std::string& cause);
  /// [after stop]
  void leave_moved_file();
  Database& database() { return *database_; }
  Spool& spool() { return spool_; }

 private:
  using Clock = std::chrono::steady_clock;

  void work();
  bool take(std::chrono::milliseconds longest);
  bool try_commit(bool flushes);
  bool should_spill(bool stopping) const;
  void spill();

  int64_t run_id_;
  std::unique_ptr<Database> database_;
  bool commits_durably_ = false;
  Spool spool_;
  std::unique_ptr<RowWriter> rows_;
  LogQueue queue_;
  std::unique_ptr<RecordSink> sink_;
  std::atomic<bool> incomplete_ = false;
  std::atomic<int64_t> dropped_ = 0;

  std::deque<LogRecord> pending_;
  int64_t pending_rows_ = 0;
  Clock::time_point next_heartbeat_;
  Clock::time_point failing_since_, deadline_;
  bool failing_ = false, only_locked_ = false, spilled_ = false;
  std::string last_failure_;

  std::thread thread_;
};

}  // namespace wmtp
