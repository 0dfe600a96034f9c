// The thread that owns the connection between a run's start and its end.
//
// Each wake-up (at most ten a second) is one transaction: everything queued, and the heartbeat when it is due. When it
// fails it is rolled back and its records are kept, in order, for the next try:
//   locked   they wait until the lock is gone, or until half of the queue's room is taken;
//   failing  (full, I/O, gone) they wait for 5 s, or until half of the room is taken; after that, until a transaction
//            succeeds again, every wake-up that fails is given up at once.
// Given up means: written to the spool; where that fails too they wait, and when the room is used up they are lost.
// A file that was deleted or replaced is left: all that it held, and what comes, goes to a new one beside it.
// Either way the log is incomplete, which is told once as a warning and stands in the run's row as soon as it can.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>

#include "core/runlog/database.hpp"
#include "core/runlog/log_queue.hpp"
#include "core/runlog/record_sink.hpp"
#include "core/runlog/row_writer.hpp"
#include "core/runlog/spool.hpp"

namespace wmtp {

class LogWriter {
 public:
  LogWriter(Database database, int64_t run_id, std::unique_ptr<RecordSink> sink);
  ~LogWriter();

  /// [any thread] Never waits for a file.
  void push(Record record);
  /// Drains the queue, for at most 15 s while the database is locked, and ends the thread.
  void stop();
  bool incomplete() const { return incomplete_ || dropped_ > 0; }
  /// [after stop]
  void give_up(const std::string& why);
  /// [after stop]
  void leave_moved_file();
  Database& database() { return *database_; }
  Spool& spool() { return spool_; }

 private:
  using Clock = std::chrono::steady_clock;

  void work();
  void take(std::chrono::milliseconds longest);
  bool try_commit();
  bool should_spill(bool stopping) const;
  void spill();

  int64_t run_id_;
  std::unique_ptr<Database> database_;
  Spool spool_;
  std::unique_ptr<RowWriter> rows_;
  LogQueue queue_;
  std::unique_ptr<RecordSink> sink_;
  std::atomic<bool> incomplete_ = false;
  std::atomic<int64_t> dropped_ = 0;

  std::deque<Record> pending_;
  int64_t pending_rows_ = 0;
  Clock::time_point next_heartbeat_;
  Clock::time_point failing_since_, deadline_;
  bool failing_ = false, only_locked_ = false, spilled_ = false, marked_ = false;
  std::string last_failure_;

  std::thread thread_;
};

}  // namespace wmtp
