#include "log/spool.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/json_text.hpp"
#include "base/log.hpp"
#include "base/secret.hpp"
#include "log/open_log.hpp"
#include "log/rows.hpp"

namespace wmtp {

namespace {
constexpr const char *spool_extension = ".spool", *batch_table = "batch";
constexpr size_t max_line_bytes = 64 << 20;
constexpr std::chrono::seconds patience{1};  // commands that read a log should not wait for its writers

std::string spool_line(const char* table, Json row) {
  row["table"] = table;
  return dumped(row) + "\n";
}

std::string spool_lines(const LogRecord& record, int64_t run_id) {
  std::string lines;
  each_row(record, [&](const LogTable& table, const auto&... values) {
    Json row{{"run_id", run_id}};
    auto column = table.columns.begin();
    ((row[*column++] = values), ...);
    lines += spool_line(table.name, std::move(row));
  });
  return lines;
}

/// Open and locked, and not removed by the program that held the lock before; otherwise invalid, with errno.
FileDescriptor locked_file(const std::filesystem::path& path, int flags) {
  while (true) {
    FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
    if (file.get() < 0) return file;
    retry_interrupted([&] { return flock(file.get(), LOCK_EX); });  // fails where locks are not supported
    struct stat status {};
    if (fstat(file.get(), &status) != 0) return FileDescriptor();
    if (!S_ISREG(status.st_mode)) {
      errno = EINVAL;
      return FileDescriptor();
    }
    if (status.st_nlink > 0) return file;
  }
}

/// The lines of an open file. A spool is removed when it has been read, so it must not seem to end where it cannot be
/// read.
class SpoolLines {
 public:
  SpoolLines(int file, const std::filesystem::path& path) : file_(file), path_(path) {}

  /// False at the end. Error(storage) if the file cannot be read, Error(data) for a line that is longer than any that
  /// is written.
  bool next(std::string& line) {
    for (line.clear(); line.size() <= max_line_bytes;) {
      const auto newline = std::find(rest_.begin(), rest_.end(), '\n');
      line.append(rest_.begin(), newline);
      if (newline != rest_.end()) {
        rest_ = {newline + 1, rest_.end()};
        return true;
      }
      if (!read_part()) return !line.empty();
    }
    throw Error(ExitStatus::data, "found a line of more than 64 MiB, which no run writes; remove the file");
  }

 private:
  bool read_part() {
    const ssize_t count = retry_interrupted([&] { return ::read(file_, part_.data(), part_.size()); });
    if (count < 0) throw storage_error("read", path_, errno);
    rest_ = {part_.data(), size_t(count)};
    return count > 0;
  }

  int file_;
  const std::filesystem::path& path_;
  std::array<char, 1 << 16> part_;
  std::string_view rest_;  ///< of the part
};

/// Of a batch's first line; nothing for another line.
std::optional<std::string> run_key_in(const std::string& line) {
  const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object() || row.value("table", "") != batch_table) return std::nullopt;
  return row.value("run_key", "");
}

/// Whether the log has a run of this spool. Writes nothing: the folder may contain the spools of other logs.
bool has_rows_of(const std::filesystem::path& database, const std::filesystem::path& spool) {
  Database log(database, Database::Mode::read);
  log.set_busy_timeout(patience);
  if (log.integer("SELECT count(*) FROM sqlite_schema WHERE name = 'run_keys'") == 0) return false;
  Statement find(log, "SELECT 1 FROM run_keys WHERE key = ?1");
  const FileDescriptor file(::open(spool.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT) return false;  // another process has loaded it
  if (file.get() < 0) throw storage_error("open", spool, errno);
  SpoolLines lines(file.get(), spool);
  for (std::string line; lines.next(line);) {
    const auto key = run_key_in(line);
    if (!key) continue;
    find.bind(1, *key);
    if (find.step()) return true;
    find.reset();
  }
  return false;
}

/// Adds one spool to a log, in one transaction, in which the names of its batches are logged too: a process that
/// reads a batch a second time, because the file was not removed, leaves it out.
class SpoolLoader {
 public:
  SpoolLoader(const std::filesystem::path& database, std::filesystem::path spool)
      : spool_(std::move(spool)),
        log_(open_log_for_writing(database, patience)),
        find_run_(log_, "SELECT run_id FROM run_keys WHERE key = ?1"),
        add_batch_(log_, "INSERT OR IGNORE INTO loaded_batches (batch, run_id) VALUES (?1, ?2)"),
        add_name_(log_, add_metric_name) {
    rows_.try_emplace("runs", log_,
                      "UPDATE runs SET status = ?2 ->> 'status', exit_code = ?2 ->> 'exit_code', "
                      "ended_at = ?2 ->> 'ended_at', heartbeat_at = ?2 ->> 'ended_at' "
                      "WHERE id = ?1 AND status = 'running'");
    for (const LogTable* table : log_tables)
      rows_.try_emplace(table->name, log_, insertion(*table, RowSource::spool_line));
  }

  void load() {
    log_.set_busy_timeout(patience);
    Transaction transaction(log_);                      // before the file's lock, for which a run waits
    FileDescriptor file = locked_file(spool_, O_RDWR);  // NFS has no exclusive lock of a file to be read only
    if (file.get() < 0 && (errno == EACCES || errno == EROFS)) file = locked_file(spool_, O_RDONLY);
    if (file.get() < 0 && errno == ENOENT) return;  // as above
    if (file.get() < 0) throw storage_error("open", spool_, errno);
    SpoolLines lines(file.get(), spool_);
    for (std::string line; lines.next(line);) take(line);
    // What was lost with the queue is an event.
    for (const int64_t run : runs_)
      Statement(log_,
                "UPDATE runs SET log_incomplete = 0 WHERE id = ?1 AND NOT EXISTS "
                "(SELECT 1 FROM events WHERE run_id = ?1 AND kind = 'rows_lost')")
          .run(run);
    transaction.commit();
    std::error_code ignored;
    if (!has_others_) std::filesystem::remove(spool_, ignored);
  }

 private:
  void take(const std::string& line) {
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object()) return;  // cut by a crash
    const std::string table = row.value("table", "");
    if (table == batch_table) begin_batch(row);
    if (run_ == 0) return;
    if (table == metrics_table.name) add_name_.run(row.value("name", ""));
    if (const auto found = rows_.find(table); found != rows_.end()) found->second.run(run_, line);
  }

  void begin_batch(const Json& row) {
    find_run_.bind(1, row.value("run_key", ""));
    run_ = find_run_.step() ? find_run_.integer(0) : 0;
    find_run_.reset();
    has_others_ |= run_ == 0;
    if (run_ == 0) return;
    add_batch_.run(row.value("batch", ""), run_);
    if (log_.changes() == 0)
      run_ = 0;
    else
      runs_.insert(run_);
  }

  std::filesystem::path spool_;
  Database log_;
  Statement find_run_, add_batch_, add_name_;
  std::map<std::string, Statement> rows_;  ///< by table: how a line (?2) changes the run (?1)
  int64_t run_ = 0;                        ///< of the batch; 0: it is left out
  std::set<int64_t> runs_;
  bool has_others_ = false;
};

}  // namespace

Spool::Spool(const std::filesystem::path& database, int64_t run_id, std::string run_key)
    : path_(database.string() + ".run-" + std::to_string(run_id) + spool_extension),
      run_id_(run_id),
      run_key_(std::move(run_key)) {}

bool Spool::write(const std::deque<LogRecord>& records) {
  std::string lines;
  for (const LogRecord& record : records) lines += spool_lines(record, run_id_);
  return append(lines);
}

void Spool::write_end(const std::string& status, int exit_code, const std::string& ended_at) {
  append(spool_line("runs", {{"id", run_id_}, {"status", status}, {"exit_code", exit_code}, {"ended_at", ended_at}}));
}

bool Spool::append(const std::string& rows) try {
  // Refuses a link or pipe of that name.
  const FileDescriptor file = locked_file(path_, O_WRONLY | O_CREAT | O_APPEND);
  if (file.get() < 0) return false;
  const std::string lines =
      spool_line(batch_table, {{"run_id", run_id_}, {"run_key", run_key_}, {"batch", random_token()}}) + rows;
  const off_t before = ::lseek(file.get(), 0, SEEK_END);
  size_t done = 0;
  while (done < lines.size()) {
    const ssize_t n = retry_interrupted([&] { return ::write(file.get(), lines.data() + done, lines.size() - done); });
    if (n <= 0) break;
    done += size_t(n);
  }
  if (done == lines.size() && ::fsync(file.get()) == 0) return true;
  [[maybe_unused]] const int ignored = ::ftruncate(file.get(), before);
  return false;
} catch (const Error&) {  // no random numbers
  return false;
}

void load_spools(const std::filesystem::path& database) {
  std::vector<std::filesystem::path> spools;
  std::error_code error;
  if (!std::filesystem::exists(database, error)) return;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::absolute(database).parent_path(), error))
    if (entry.path().extension() == spool_extension && std::filesystem::is_regular_file(entry.symlink_status()))
      spools.push_back(entry.path());  // a pipe would block this program
  for (const std::filesystem::path& spool : spools) {
    try {
      if (has_rows_of(database, spool)) SpoolLoader(database, spool).load();
    } catch (const std::exception& failure) {
      log_warning(std::string(failure.what()) + "; the rows in " + spool.string() + " are not in the log yet");
    }
  }
}

}  // namespace wmtp
