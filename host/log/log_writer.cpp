#include "log/log_writer.hpp"

#include <unistd.h>

#include <csignal>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "log/open_log.hpp"
#include "log/rows.hpp"

namespace wmtp {

using namespace std::chrono_literals;

/// Writes records as rows with prepared statements, inside the caller's transaction.
class RowWriter {
 public:
  RowWriter(Database& database, int64_t run_id)
      : run_id_(run_id),
        add_name_(database, add_metric_name),
        heartbeat_(database, "UPDATE runs SET heartbeat_at = ?2 WHERE id = ?1"),
        incomplete_(database, "UPDATE runs SET log_incomplete = 1 WHERE id = ?1") {
    for (const LogTable* table : log_tables)
      insertions_.try_emplace(table, database, insertion(*table, RowSource::values));
  }

  void write(const LogRecord& record) {
    if (const auto* metrics = std::get_if<MetricsRecord>(&record))
      for (const auto& [name, value] : metrics->values)
        if (names_.insert(name).second) add_name_.run(name);
    each_row(record,
             [this](const LogTable& table, const auto&... values) { insertions_.at(&table).run(run_id_, values...); });
  }
  void heartbeat() { heartbeat_.run(run_id_, utc_now()); }
  void mark_incomplete() { incomplete_.run(run_id_); }
  /// After a rollback: names added by this transaction are not in the file.
  void forget_names() { names_.clear(); }

 private:
  int64_t run_id_;
  std::unordered_set<std::string> names_;
  std::unordered_map<const LogTable*, Statement> insertions_;
  Statement add_name_, heartbeat_, incomplete_;
};

namespace {

constexpr auto heartbeat_interval = 10s;
constexpr auto pace = 100ms;  // between transactions
constexpr auto failing_patience = 5s;
constexpr auto last_patience = 15s;  // for a lock, at the end
constexpr auto busy_timeout = 1s;

int64_t count_rows(const std::deque<LogRecord>& records) {
  return std::accumulate(records.begin(), records.end(), int64_t{0},
                         [](int64_t sum, const LogRecord& one) { return sum + num_rows(one); });
}

}  // namespace

LogWriter::LogWriter(Database database, int64_t run_id, const std::string& run_key, std::unique_ptr<RecordSink> sink)
    : run_id_(run_id),
      database_(std::make_unique<Database>(std::move(database))),
      spool_(database_->path(), run_id, run_key),
      rows_(std::make_unique<RowWriter>(*database_, run_id)),
      sink_(std::move(sink)),
      next_heartbeat_(Clock::now() + heartbeat_interval) {
  database_->set_busy_timeout(busy_timeout);
  // Other threads handle signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogWriter::~LogWriter() { stop(); }

void LogWriter::push(LogRecord record) {
  const int64_t rows = num_rows(record);
  if (!queue_.push(std::move(record))) dropped_ += rows;
}

void LogWriter::stop() {
  if (!thread_.joinable()) return;
  queue_.stop();
  thread_.join();
  if (dropped_ == 0) return;
  const std::string cause = "the queue was full, dropping " + counted(int64_t(dropped_), "row");
  give_up(cause);
  spool_.write({EventRecord{now_ns(), 0, "error", "rows_lost", 0, cause}});
}

bool LogWriter::lacks_rows() const {
  return dropped_ > 0 || !pending_.empty() || (incomplete_ && is_there(spool_.path()));
}

void LogWriter::give_up(const std::string& cause) {
  if (!incomplete_.exchange(true)) {
    log_warning("the run continues, but its log is incomplete: " + cause + "; the missing rows are in " +
                spool_.path().string());
  }
}

void LogWriter::work() {
  bool stopping = false;
  while (true) {
    const auto idle = std::chrono::duration_cast<std::chrono::milliseconds>(next_heartbeat_ - Clock::now());
    const bool flushes = take(failing_ ? 1ms : std::max(idle, 1ms));
    pending_rows_ = count_rows(pending_);
    const bool due = Clock::now() >= next_heartbeat_;
    const bool has_failed = (!pending_.empty() || due || flushes) && !try_commit(flushes);
    if (has_failed && should_spill(stopping)) spill();
    if (!has_failed || !only_locked_) queue_.end_flushes();
    if (stopping && (pending_.empty() || !only_locked_ || Clock::now() > deadline_)) return;
    const bool stop_requested = queue_.stopped_within(failing_ ? 2 * pace : pace);
    if (stop_requested && !stopping) {
      stopping = true;
      deadline_ = Clock::now() + last_patience;
    }
  }
}

bool LogWriter::take(std::chrono::milliseconds longest) {
  const auto known = std::ptrdiff_t(pending_.size());
  bool flushes = queue_.take(pending_, longest);
  if (!sink_) return flushes;
  try {
    sink_->receive(pending_.cbegin() + known, pending_.cend());
  } catch (const std::exception& error) {
    sink_.reset();
    log_warning(std::string("the run and its log continue, but ") + error.what());
    push(EventRecord{now_ns(), 0, "warning", "sink_failed", 0, error.what()});
    flushes = queue_.take(pending_, 0ms);
  }
  return flushes;
}

bool LogWriter::try_commit(bool flushes) {
  try {
    leave_moved_file();
    if (flushes != commits_durably_) (flushes ? set_synchronous_full : set_synchronous_normal)(*database_);
    commits_durably_ = flushes;
    Transaction transaction(*database_);
    for (const LogRecord& record : pending_) rows_->write(record);
    const bool beat = flushes || Clock::now() >= next_heartbeat_;  // a flush of nothing new needs a row, too
    if (beat) rows_->heartbeat();
    if (incomplete_) rows_->mark_incomplete();
    transaction.commit();
    queue_.release(pending_rows_);
    pending_.clear();
    if (beat) next_heartbeat_ = Clock::now() + heartbeat_interval;
    failing_ = spilled_ = false;
    return true;
  } catch (const std::exception& error) {
    const auto* sqlite = dynamic_cast<const SqliteError*>(&error);
    only_locked_ = sqlite && sqlite->busy();
    last_failure_ = error.what();
  }
  rows_->forget_names();
  if (!failing_) failing_since_ = Clock::now();
  failing_ = true;
  return false;
}

/// Copies the content through the open connection, which still reads the old file.
void LogWriter::leave_moved_file() {
  if (!database_->has_moved()) return;
  const std::filesystem::path moved = std::filesystem::absolute(database_->path());
  const std::filesystem::path kept =
      moved.string() + ".run-" + std::to_string(run_id_) + "-" + std::to_string(getpid()) + ".db";
  std::error_code ignored;
  std::filesystem::create_directories(kept.parent_path(), ignored);
  try {
    Statement(*database_, "VACUUM INTO ?1").run(kept.string());
    auto database = std::make_unique<Database>(open_log_for_writing(kept));
    database->set_busy_timeout(busy_timeout);
    set_synchronous_normal(*database);
    commits_durably_ = false;
    rows_ = std::make_unique<RowWriter>(*database, run_id_);
    database_ = std::move(database);
  } catch (...) {
    std::filesystem::remove(kept, ignored);
    throw;
  }
  const std::string message = "the run log " + moved.string() +
                              " was deleted or replaced; its content and this run's new rows are in " + kept.string();
  log_warning(message);
  rows_->write(LogRecord(EventRecord{now_ns(), 0, "warning", "log_moved", 0, message}));
}

bool LogWriter::should_spill(bool stopping) const {
  if (pending_rows_ > LogQueue::most_rows / 2) return true;
  if (only_locked_) return stopping && Clock::now() > deadline_;
  return spilled_ || stopping || Clock::now() - failing_since_ > failing_patience;
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
