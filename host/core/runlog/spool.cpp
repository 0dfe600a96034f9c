#include "core/runlog/spool.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/json.hpp"

namespace wmtp {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemoryRecord, rank, step, phase, category, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankTime, rank, step, phase, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SampleRecord, sequence, position, head, token_id, text, weight, loss, reference_loss)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Generation, number, prompt, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointRecord, step, path, bytes, state, time_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EventRecord, time_ns, rank, level, kind, step, message)

namespace {

using nlohmann::json;

std::string line_of(const char* table, json row) {
  row["table"] = table;
  return row.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string line_of(const char* table, int64_t run_id, json row) {
  row["run_id"] = run_id;
  return line_of(table, std::move(row));
}

std::string lines_of(const MetricsRecord& record, int64_t run_id) {
  std::string lines;
  for (const auto& [name, value] : record.values) {
    const char* kind = kind_of(value);
    lines += line_of("metrics", run_id,
                     {{"step", record.step},
                      {"name", name},
                      {"value", kind ? json() : json(value)},
                      {"kind", kind ? json(kind) : json()},
                      {"time_ns", record.time_ns}});
  }
  return lines;
}

std::string lines_of(const MemoryRecords& record, int64_t run_id) {
  std::string lines;
  for (const MemoryRecord& one : record.values) lines += line_of("memory", run_id, one);
  return lines;
}

std::string lines_of(const RankTimes& record, int64_t run_id) {
  std::string lines;
  for (const RankTime& one : record.values) lines += line_of("rank_times", run_id, one);
  return lines;
}

std::string lines_at_step(const char* table, const auto& record, int64_t run_id) {
  std::string lines;
  for (json row : record.values) {
    row["step"] = record.step;
    lines += line_of(table, run_id, std::move(row));
  }
  return lines;
}

std::string lines_of(const SampleRecords& record, int64_t run_id) { return lines_at_step("samples", record, run_id); }

std::string lines_of(const Generations& record, int64_t run_id) { return lines_at_step("generations", record, run_id); }

std::string lines_of(const CheckpointRecord& record, int64_t run_id) { return line_of("checkpoints", run_id, record); }

std::string lines_of(const EventRecord& record, int64_t run_id) { return line_of("events", run_id, record); }

}  // namespace

Spool::Spool(const std::filesystem::path& database, int64_t run_id)
    : path_(database.string() + ".run-" + std::to_string(run_id) + ".spool"), run_id_(run_id) {}

bool Spool::write(const std::deque<Record>& records) {
  std::string lines;
  for (const Record& record : records) {
    lines += std::visit([this](const auto& one) { return lines_of(one, run_id_); }, record);
  }
  return append(lines);
}

bool Spool::write_end(const std::string& status, int exit_code, const std::string& ended_at) {
  return append(
      line_of("runs", {{"id", run_id_}, {"status", status}, {"exit_code", exit_code}, {"ended_at", ended_at}}));
}

bool Spool::append(const std::string& lines) {
  // Refuses a link or pipe of that name.
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int file = ::open(path_.c_str(), flags, 0644);
  if (file < 0) return false;
  const off_t before = ::lseek(file, 0, SEEK_END);
  size_t done = 0;
  while (done < lines.size()) {
    const ssize_t n = ::write(file, lines.data() + done, lines.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  bool complete = done == lines.size();
  if (!complete && ::ftruncate(file, before) != 0) complete = false;
  return ::close(file) == 0 && complete;
}

}  // namespace wmtp
