#include "log/spool.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/secret.hpp"
#include "log/open_log.hpp"

namespace wmtp {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemoryRecord, rank, step, phase, category, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankTime, rank, step, phase, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SampleRecord, sequence, position, head, token_id, text, weight, loss, reference_loss)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Generation, number, prompt, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointRecord, step, path, bytes, state, time_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EventRecord, time_ns, rank, level, kind, step, message)

namespace {
constexpr const char *spool_extension = ".spool", *batch_table = "batch";
constexpr size_t max_line_bytes = 64 << 20;
constexpr std::chrono::seconds patience{1};  // commands that read a log should not wait for its writers

std::string spool_line(const char* table, Json row) {
  row["table"] = table;
  return row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string spool_line(const char* table, int64_t run_id, Json row) {
  row["run_id"] = run_id;
  return spool_line(table, std::move(row));
}

std::string spool_lines(const MetricsRecord& record, int64_t run_id) {
  std::string lines;
  for (const auto& [name, value] : record.values) {
    const char* kind = non_finite_name(value);
    lines += spool_line("metrics", run_id,
                        {{"step", record.step},
                         {"name", name},
                         {"value", kind ? Json() : Json(value)},
                         {"kind", kind ? Json(kind) : Json()},
                         {"time_ns", record.time_ns}});
  }
  return lines;
}

std::string spool_lines(const MemoryRecords& record, int64_t run_id) {
  std::string lines;
  for (const MemoryRecord& one : record.values) lines += spool_line("memory", run_id, one);
  return lines;
}

std::string spool_lines(const RankTimes& record, int64_t run_id) {
  std::string lines;
  for (const RankTime& one : record.values) lines += spool_line("rank_times", run_id, one);
  return lines;
}

std::string lines_at_step(const char* table, const auto& record, int64_t run_id) {
  std::string lines;
  for (Json row : record.values) {
    row["step"] = record.step;
    lines += spool_line(table, run_id, std::move(row));
  }
  return lines;
}

std::string spool_lines(const SampleRecords& record, int64_t run_id) {
  return lines_at_step("samples", record, run_id);
}

std::string spool_lines(const Generations& record, int64_t run_id) {
  return lines_at_step("generations", record, run_id);
}

std::string spool_lines(const CheckpointRecord& record, int64_t run_id) {
  return spool_line("checkpoints", run_id, record);
}

std::string spool_lines(const EventRecord& record, int64_t run_id) { return spool_line("events", run_id, record); }

/// Open and locked, and not removed by the program that held the lock before; otherwise invalid.
Descriptor locked_file(const std::filesystem::path& path, int flags) {
  while (true) {
    Descriptor file(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
    if (file.get() < 0) return file;
    retry_interrupted([&] { return flock(file.get(), LOCK_EX); });  // fails where locks are not supported
    struct stat status {};
    if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return Descriptor();
    if (status.st_nlink > 0) return file;
  }
}

/// The next line; false at the end. Error(data) for a line that is longer than any that is written.
bool next_line(std::istream& in, std::string& line) {
  char part[1 << 16];
  for (line.clear(); line.size() <= max_line_bytes; in.clear()) {
    in.getline(part, sizeof part);
    const bool has_ended = !in.fail();
    line.append(part, size_t(in.gcount()) - (has_ended && !in.eof() ? 1 : 0));
    if (has_ended || in.eof() || in.bad() || in.gcount() == 0) return has_ended || !line.empty();
  }
  throw Error(ExitStatus::data, "found a line of more than 64 MiB, which no run writes; remove the file");
}

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
  std::ifstream lines(spool);
  for (std::string line; next_line(lines, line);) {
    const auto key = run_key_in(line);
    if (!key) continue;
    find.bind(1, *key);
    if (find.step()) return true;
    find.reset();
  }
  return false;
}

/// How a line (?2) of each table becomes a row of the run (?1). A later value that is in the log already is kept, as is
/// any row that is there.
const std::map<std::string, std::vector<const char*>> insertions{
    {"metrics",
     {"INSERT OR IGNORE INTO metric_names (name) SELECT ?2 ->> 'name'",
      "INSERT OR IGNORE INTO metric_values (run_id, name_id, step, value, kind, time_ns) "
      "SELECT ?1, (SELECT id FROM metric_names WHERE name = ?2 ->> 'name'), ?2 ->> 'step', ?2 ->> 'value', "
      "?2 ->> 'kind', ?2 ->> 'time_ns' WHERE true ON CONFLICT (run_id, name_id, step) DO UPDATE "
      "SET value = excluded.value, kind = excluded.kind, time_ns = excluded.time_ns "
      "WHERE excluded.time_ns > metric_values.time_ns"}},
    {"memory",
     {"INSERT OR IGNORE INTO memory (run_id, rank, step, phase, category, bytes) "
      "SELECT ?1, ?2 ->> 'rank', ?2 ->> 'step', ?2 ->> 'phase', ?2 ->> 'category', ?2 ->> 'bytes'"}},
    {"rank_times",
     {"INSERT OR IGNORE INTO rank_times (run_id, rank, step, phase, seconds) "
      "SELECT ?1, ?2 ->> 'rank', ?2 ->> 'step', ?2 ->> 'phase', ?2 ->> 'seconds'"}},
    {"samples",
     {"INSERT OR IGNORE INTO samples (run_id, step, sequence, position, head, token_id, text, weight, loss, "
      "reference_loss) SELECT ?1, ?2 ->> 'step', ?2 ->> 'sequence', ?2 ->> 'position', ?2 ->> 'head', "
      "?2 ->> 'token_id', ?2 ->> 'text', ?2 ->> 'weight', ?2 ->> 'loss', ?2 ->> 'reference_loss'"}},
    {"generations",
     {"INSERT OR IGNORE INTO generations (run_id, step, number, prompt, text) "
      "SELECT ?1, ?2 ->> 'step', ?2 ->> 'number', ?2 ->> 'prompt', ?2 ->> 'text'"}},
    {"checkpoints",
     {"INSERT OR IGNORE INTO checkpoints (run_id, step, path, bytes, state, time_ns) "
      "SELECT ?1, ?2 ->> 'step', ?2 ->> 'path', ?2 ->> 'bytes', ?2 ->> 'state', ?2 ->> 'time_ns' WHERE true "
      "ON CONFLICT (run_id, path) DO UPDATE "
      "SET step = excluded.step, bytes = excluded.bytes, state = excluded.state, time_ns = excluded.time_ns "
      "WHERE excluded.time_ns > checkpoints.time_ns"}},
    {"events",
     {"INSERT OR IGNORE INTO events (run_id, time_ns, rank, level, kind, step, message) "
      "SELECT ?1, ?2 ->> 'time_ns', ?2 ->> 'rank', ?2 ->> 'level', ?2 ->> 'kind', ?2 ->> 'step', ?2 ->> 'message'"}},
    {"runs",
     {"UPDATE runs SET status = ?2 ->> 'status', exit_code = ?2 ->> 'exit_code', ended_at = ?2 ->> 'ended_at', "
      "heartbeat_at = ?2 ->> 'ended_at' WHERE id = ?1 AND status = 'running'"}},
};

/// Adds one spool to a log, in one transaction, in which the names of its batches are logged too: a process that
/// reads a batch a second time, because the file was not removed, leaves it out.
class SpoolLoader {
 public:
  SpoolLoader(const std::filesystem::path& database, std::filesystem::path spool)
      : spool_(std::move(spool)), log_(open_log_for_writing(database, patience)) {}

  void load() {
    log_.set_busy_timeout(patience);
    Transaction transaction(log_);  // before the file's lock, for which a run waits
    const Descriptor file = locked_file(spool_, O_RDONLY);
    if (file.get() < 0) return;
    std::ifstream lines(spool_);
    for (std::string line; next_line(lines, line);) take(line);
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
    if (table == batch_table)
      begin_batch(row);
    else if (const auto found = insertions.find(table); found != insertions.end() && run_ != 0)
      for (size_t i = 0; i < found->second.size(); ++i) statement(found->second[i]).run(run_, line);
  }

  void begin_batch(const Json& row) {
    Statement& find = statement("SELECT run_id FROM run_keys WHERE key = ?1");
    find.bind(1, row.value("run_key", ""));
    run_ = find.step() ? find.integer(0) : 0;
    find.reset();
    has_others_ |= run_ == 0;
    if (run_ == 0) return;
    statement("INSERT OR IGNORE INTO loaded_batches (batch, run_id) VALUES (?1, ?2)").run(row.value("batch", ""), run_);
    if (log_.changes() == 0)
      run_ = 0;
    else
      runs_.insert(run_);
  }

  Statement& statement(const char* sql) { return statements_.try_emplace(sql, log_, sql).first->second; }

  std::filesystem::path spool_;
  Database log_;
  std::map<std::string, Statement> statements_;
  int64_t run_ = 0;  ///< of the batch; 0: it is left out
  std::set<int64_t> runs_;
  bool has_others_ = false;
};

}  // namespace

Spool::Spool(const std::filesystem::path& database, int64_t run_id, std::string run_key)
    : path_(database.string() + ".run-" + std::to_string(run_id) + spool_extension),
      run_id_(run_id),
      run_key_(std::move(run_key)) {}

bool Spool::write(const std::deque<Record>& records) {
  std::string lines;
  for (const Record& record : records) {
    lines += std::visit([this](const auto& one) { return spool_lines(one, run_id_); }, record);
  }
  return append(lines);
}

bool Spool::write_end(const std::string& status, int exit_code, const std::string& ended_at) {
  return append(
      spool_line("runs", {{"id", run_id_}, {"status", status}, {"exit_code", exit_code}, {"ended_at", ended_at}}));
}

bool Spool::append(const std::string& rows) try {
  // Refuses a link or pipe of that name.
  const Descriptor file = locked_file(path_, O_WRONLY | O_CREAT | O_APPEND);
  if (file.get() < 0) return false;
  const std::string lines = spool_line(batch_table, run_id_, {{"run_key", run_key_}, {"batch", random_token()}}) + rows;
  const off_t before = ::lseek(file.get(), 0, SEEK_END);
  size_t done = 0;
  while (done < lines.size()) {
    const ssize_t n = retry_interrupted([&] { return ::write(file.get(), lines.data() + done, lines.size() - done); });
    if (n <= 0) break;
    done += size_t(n);
  }
  if (done == lines.size()) return true;
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
