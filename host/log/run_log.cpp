#include "log/run_log.hpp"

#include <cmath>
#include <type_traits>

#include "base/json.hpp"
#include "base/json_text.hpp"
#include "base/secret.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "log/log_writer.hpp"
#include "log/migrations.hpp"
#include "log/open_log.hpp"
#include "log/run_folders.hpp"

namespace wmtp {

const char* status_name(ExitStatus status) {
  if (status == ExitStatus::done) return "finished";
  return status == ExitStatus::interrupted ? "interrupted" : "failed";
}

namespace {

using namespace std::chrono_literals;

struct ParamText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return shortest_digits(value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<std::string>& value) const { return dumped(Json(value)); }
  std::string operator()(const std::vector<double>& value) const { return toml_text(value); }
  std::string operator()(const std::vector<Fields>& value) const { return toml_text(value); }
  std::string operator()(const Fields& value) const { return toml_text(value); }
};

constexpr auto param_number = [](const auto& value) -> std::optional<double> {
  if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>)
    if (const auto number = double(value); std::isfinite(number)) return number;
  return std::nullopt;
};

void insert_run(Database& database, const RunStart& start, int64_t id, const std::string& key) {
  Statement run(database,
                "INSERT INTO runs (id, name, pipeline, adapter, status, started_at, heartbeat_at, config_hash, seed, "
                "world_size, strategy, precision, device, git_commit, host, version, parent_run, experiment_toml, "
                "resolved_toml) VALUES (?1, ?2, ?3, ?4, 'running', ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
                "?15, ?16, ?17)");
  run.run(id, start.name, start.pipeline, start.adapter, utc_now(), start.config_hash, start.seed, start.world_size,
          start.strategy, start.precision, start.device, start.git_commit, start.host, start.version,
          start.parent_run ? std::optional(start.parent_run) : std::nullopt, start.experiment_toml,
          start.resolved_toml);
  Statement(database, "INSERT INTO run_keys (run_id, key) VALUES (?1, ?2)").run(id, key);
  Statement param(database, "INSERT INTO run_params (run_id, key, value_text, value_num) VALUES (?1, ?2, ?3, ?4)");
  for (const auto& [key, value] : start.params) {
    param.run(id, key, param_text(value), std::visit(param_number, value));
  }
  if (!start.command.empty())
    Statement(database, "INSERT INTO run_commands (run_id, command) VALUES (?1, ?2)")
        .run(id, repaired_utf8(start.command));
  Statement plugin(database,
                   "INSERT INTO run_plugins (run_id, kind, name, version, sha256, path) "
                   "VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
  for (const auto& one : start.plugins) plugin.run(id, one.kind, one.name, one.version, one.sha256, one.path);
}

/// False if it already exists.
bool make_run_folder(const std::filesystem::path& folder) {
  std::error_code error;
  const bool made = std::filesystem::create_directory(folder, error);
  if (!error || error == std::errc::file_exists) return made;
  throw Error(ExitStatus::storage, "run folder " + folder.string() + ": cannot be created: " + error.message() +
                                       "; make its parent writable, or name another database with --db");
}

}  // namespace

std::string param_text(const Value& value) { return std::visit(ParamText{}, value); }

RunLog::RunLog(const std::filesystem::path& path, const RunStart& start, const SinkMaker& make_sink)
    : run_key_(random_token()) {
  Database database = open_log_for_writing(path);
  load_spools(path);
  database.set_busy_timeout(log_patience);
  Transaction transaction(database);
  run_id_ = database.integer("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'runs'");
  do {  // another log in this place may use the folder of this id: try the next one
    folder_ = run_folder_path(path, ++run_id_, start.name);
  } while (!make_run_folder(folder_));
  try {
    insert_run(database, start, run_id_, run_key_);
    transaction.commit();
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(folder_, ignored);
    throw;
  }
  set_synchronous_normal(database);
  writer_ =
      std::make_unique<LogWriter>(std::move(database), run_id_, run_key_, make_sink ? make_sink(run_id_) : nullptr);
}

RunLog::~RunLog() {
  if (!ended_) end(ExitStatus::bug);
}

void RunLog::metrics(int64_t step, const std::map<std::string, double>& values) {
  writer_->push(MetricsRecord{step, now_ns(), {values.begin(), values.end()}});
}

void RunLog::memory(const std::vector<MemoryRecord>& records) { writer_->push(MemoryRecords{records}); }

void RunLog::rank_times(std::vector<RankTime> records) { writer_->push(RankTimes{std::move(records)}); }

void RunLog::samples(int64_t step, std::vector<SampleRecord> records) {
  writer_->push(SampleRecords{step, std::move(records)});
}

void RunLog::sample_alignments(int64_t step, std::vector<SampleAlignment> records) {
  writer_->push(SampleAlignments{step, std::move(records)});
}

void RunLog::generations(int64_t step, std::vector<Generation> records) {
  for (Generation& one : records) one.text = repaired_utf8(one.text);
  writer_->push(Generations{step, std::move(records)});
}

void RunLog::checkpoint(int64_t step, const std::filesystem::path& path, int64_t bytes, const std::string& state) {
  if (state != "kept" && state != "deleted" && state != "damaged")
    throw Error(ExitStatus::bug, "checkpoint state \"" + state + "\" is not kept, deleted or damaged");
  writer_->push(CheckpointRecord{step, now_ns(), path.string(), bytes, state});
}

void RunLog::event(int64_t rank, const std::string& level, const std::string& kind, int64_t step,
                   const std::string& message) {
  writer_->push(EventRecord{now_ns(), rank, level, kind, step, message});
}

void RunLog::flush(std::chrono::milliseconds longest) { writer_->flush(longest); }

void RunLog::end(ExitStatus status) {
  if (ended_) return;
  ended_ = true;
  LogWriter& writer = *writer_;
  writer.stop();
  const std::string now = utc_now();
  try {
    writer.leave_moved_file();
    Database& database = writer.database();
    database.set_busy_timeout(writer.incomplete() ? 1s : 5s);  // the writer has already waited
    set_synchronous_full(database);
    Transaction transaction(database);
    Statement close(
        database,
        "UPDATE runs SET status = ?2, exit_code = ?3, ended_at = ?4, heartbeat_at = ?4, log_incomplete = ?5 "
        "WHERE id = ?1");
    close.run(run_id_, status_name(status), int64_t(status), now, int64_t(writer.lacks_rows()));
    transaction.commit();
  } catch (const std::exception& error) {
    writer.give_up(error.what());
    writer.spool().write_end(status_name(status), int(status), now);
    return;
  }
  try {  // A reader may block either; the next run repeats them.
    Database& database = writer.database();
    database.set_busy_timeout(1s);
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)");
    database.execute("PRAGMA analysis_limit = 400; PRAGMA optimize");
  } catch (const SqliteError&) {
  }
}

std::filesystem::path RunLog::database() const { return writer_->database().path(); }

bool RunLog::incomplete() const { return writer_->incomplete(); }

bool close_lost_run(const std::filesystem::path& path, int64_t run_id, const std::string& run_key, ExitStatus status,
                    const std::string& message) {
  Database database(path, Database::Mode::write);
  database.set_busy_timeout(log_patience);
  if (is_new_log(database)) return false;
  migrate(database);  // an older program may have replaced the file
  set_synchronous_full(database);
  Transaction transaction(database);
  Statement close(database,
                  "UPDATE runs SET status = ?2, exit_code = ?3, ended_at = ?4 WHERE id = ?1 AND status IN ('running', "
                  "'finished') AND EXISTS (SELECT 1 FROM run_keys WHERE run_id = ?1 AND key = ?5)");
  close.run(run_id, status_name(status), int64_t(status), utc_now(), run_key);
  if (database.changes() == 0) return false;
  Statement event(database,
                  "INSERT INTO events (run_id, time_ns, rank, level, kind, step, message) "
                  "VALUES (?1, ?2, NULL, 'error', 'lost', NULL, ?3)");
  event.run(run_id, now_ns(), message);
  transaction.commit();
  return true;
}

}  // namespace wmtp
