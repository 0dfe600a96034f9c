// See log_writer.hpp.
#include "core/runlog/log_writer.hpp"

#include <unistd.h>

#include <csignal>
#include <numeric>

#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "core/runlog/open_log.hpp"

namespace wmtp {

using namespace std::chrono_literals;

namespace {

constexpr auto kHeartbeat = 10s;
constexpr auto kPace = 100ms;  // between two transactions
constexpr auto kFailingPatience = 5s;
constexpr auto kLastPatience = 15s;  // for a lock, at the end
constexpr auto kBusyTimeout = 1s;

int64_t count_rows(const std::deque<Record>& records) {
  return std::accumulate(records.begin(), records.end(), int64_t{0},
                         [](int64_t sum, const Record& one) { return sum + rows_of(one); });
}

}  // namespace

LogWriter::LogWriter(Database database, int64_t run_id, std::unique_ptr<RecordSink> sink)
    : run_id_(run_id),
      database_(std::make_unique<Database>(std::move(database))),
      spool_(database_->path(), run_id),
      rows_(std::make_unique<RowWriter>(*database_, run_id)),
      sink_(std::move(sink)),
      next_heartbeat_(Clock::now() + kHeartbeat) {
  database_->set_busy_timeout(kBusyTimeout);
  // Signals belong to the threads that look for them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogWriter::~LogWriter() { stop(); }

void LogWriter::push(Record record) {
  const int64_t rows = rows_of(record);
  if (!queue_.push(std::move(record))) dropped_ += rows;
}

void LogWriter::stop() {
  if (!thread_.joinable()) return;
  queue_.stop();
  thread_.join();
  if (dropped_ > 0) give_up(counted(int64_t(dropped_), "row") + " found no room");
}

void LogWriter::give_up(const std::string& why) {
  if (!incomplete_.exchange(true)) {
    log_warning("the run goes on, but its log is incomplete: " + why + "; what is missing lies in " +
                spool_.path().string());
  }
}

void LogWriter::work() {
  bool stopping = false;
  while (true) {
    const auto idle = std::chrono::duration_cast<std::chrono::milliseconds>(next_heartbeat_ - Clock::now());
    take(failing_ ? 1ms : std::max(idle, 1ms));
    pending_rows_ = count_rows(pending_);
    const bool due = Clock::now() >= next_heartbeat_;
    if ((!pending_.empty() || due) && !try_commit() && should_spill(stopping)) spill();
    if (stopping && (pending_.empty() || !only_locked_ || Clock::now() > deadline_)) return;
    const bool stop_told = queue_.stopped_within(failing_ ? 2 * kPace : kPace);
    if (stop_told && !stopping) {
      stopping = true;
      deadline_ = Clock::now() + kLastPatience;
    }
  }
}

void LogWriter::take(std::chrono::milliseconds longest) {
  const auto known = static_cast<std::ptrdiff_t>(pending_.size());
  queue_.take(pending_, longest);
  if (!sink_) return;
  try {
    sink_->take(pending_.cbegin() + known, pending_.cend());
  } catch (const std::exception& error) {
    sink_.reset();
    log_warning(std::string("the run and its log go on, but ") + error.what());
    push(EventRecord{now_ns(), 0, "warning", "sink_failed", 0, error.what()});
    queue_.take(pending_, 0ms);
  }
}

bool LogWriter::try_commit() {
  try {
    bool beat = false;
    leave_moved_file();
    Transaction transaction(*database_);
    for (const Record& record : pending_) rows_->write(record);
    if (Clock::now() >= next_heartbeat_) {
      rows_->heartbeat();
      beat = true;
    }
    if (incomplete_) rows_->mark_incomplete();
    transaction.commit();
    queue_.release(pending_rows_);
    pending_.clear();
    if (beat) next_heartbeat_ = Clock::now() + kHeartbeat;
    failing_ = spilled_ = false;
    return true;
  } catch (const SqliteError& error) {
    only_locked_ = error.busy();
    last_failure_ = error.what();
  } catch (const std::exception& error) {
    only_locked_ = false;
    last_failure_ = error.what();
  }
  rows_->forget_names();
  if (!failing_) failing_since_ = Clock::now();
  failing_ = true;
  return false;
}

/// The open connection still reads what it wrote.
void LogWriter::leave_moved_file() {
  if (!database_->has_moved()) return;
  const std::filesystem::path gone = std::filesystem::absolute(database_->path());
  const std::filesystem::path kept =
      gone.string() + ".run-" + std::to_string(run_id_) + "-" + std::to_string(getpid()) + ".db";
  std::error_code ignored;
  std::filesystem::create_directories(kept.parent_path(), ignored);
  try {
    Statement(*database_, "VACUUM INTO ?1").run(kept.string());
    auto database = std::make_unique<Database>(open_log_for_writing(kept));
    database->set_busy_timeout(kBusyTimeout);
    sync_loosely(*database);
    auto rows = std::make_unique<RowWriter>(*database, run_id_);
    rows_ = std::move(rows);
    database_ = std::move(database);
  } catch (...) {
    std::filesystem::remove(kept, ignored);
    throw;
  }
  const std::string message = "the run log " + gone.string() +
                              " was deleted or replaced; all it held, and what comes " + "from this run, is in " +
                              kept.string();
  log_warning(message);
  rows_->write(Record(EventRecord{now_ns(), 0, "warning", "log_moved", 0, message}));
}

bool LogWriter::should_spill(bool stopping) const {
  if (pending_rows_ > LogQueue::kMostRows / 2) return true;
  if (only_locked_) return stopping && Clock::now() > deadline_;
  return spilled_ || stopping || Clock::now() - failing_since_ > kFailingPatience;
}

void LogWriter::spill() {
  if (pending_.empty()) return;
  give_up(last_failure_);
  if (!spool_.write(pending_)) return;
  spilled_ = true;
  queue_.release(pending_rows_);
  pending_.clear();
}

}  // namespace wmtp
