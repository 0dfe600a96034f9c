#include "core/runlog/spool.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace wmtp {
namespace {

using Json = nlohmann::ordered_json;

std::string line_of(const Json& row) { return row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string lines_of(const MetricsRecord& record, int64_t run_id) {
  std::string lines;
  for (const auto& [name, value] : record.values) {
    const char* kind = kind_of(value);
    lines += line_of({{"table", "metrics"},
                      {"run_id", run_id},
                      {"step", record.step},
                      {"name", name},
                      {"value", kind ? Json() : Json(value)},
                      {"kind", kind ? Json(kind) : Json()},
                      {"time_ns", record.time_ns}});
  }
  return lines;
}

std::string lines_of(const MemoryRecords& record, int64_t run_id) {
  std::string lines;
  for (const MemoryRecord& one : record.values) {
    lines += line_of({{"table", "memory"},
                      {"run_id", run_id},
                      {"rank", one.rank},
                      {"step", one.step},
                      {"phase", one.phase},
                      {"category", one.category},
                      {"bytes", one.bytes}});
  }
  return lines;
}

std::string lines_of(const SampleRecords& record, int64_t run_id) {
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  std::string lines;
  for (const SampleRecord& one : record.values) {
    lines += line_of({{"table", "samples"},
                      {"run_id", run_id},
                      {"step", record.step},
                      {"sequence", one.sequence},
                      {"position", one.position},
                      {"head", one.head},
                      {"token_id", one.token_id},
                      {"text", one.text},
                      {"weight", number(one.weight)},
                      {"loss", number(one.loss)},
                      {"reference_loss", number(one.reference_loss)}});
  }
  return lines;
}

std::string lines_of(const CheckpointRecord& record, int64_t run_id) {
  return line_of({{"table", "checkpoints"},
                  {"run_id", run_id},
                  {"step", record.step},
                  {"path", record.path},
                  {"bytes", record.bytes},
                  {"state", record.state},
                  {"time_ns", record.time_ns}});
}

std::string lines_of(const EventRecord& record, int64_t run_id) {
  return line_of({{"table", "events"},
                  {"run_id", run_id},
                  {"time_ns", record.time_ns},
                  {"rank", record.rank},
                  {"level", record.level},
                  {"kind", record.kind},
                  {"step", record.step},
                  {"message", record.message}});
}

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
  return append(line_of(
      {{"table", "runs"}, {"id", run_id_}, {"status", status}, {"exit_code", exit_code}, {"ended_at", ended_at}}));
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
