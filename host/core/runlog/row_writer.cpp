// See row_writer.hpp.
#include "core/runlog/row_writer.hpp"

#include "base/text.hpp"

namespace wmtp {

RowWriter::RowWriter(Database& database, int64_t run_id)
    : database_(database),
      run_id_(run_id),
      add_name_(database, "INSERT OR IGNORE INTO metric_names (name) VALUES (?1)"),
      find_name_(database, "SELECT id FROM metric_names WHERE name = ?1"),
      // A metric told twice for a step is the later one.
      metric_(database,
              "INSERT INTO metric_values (run_id, name_id, step, value, kind, time_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6) "
              "ON CONFLICT (run_id, name_id, step) DO UPDATE "
              "SET value = excluded.value, kind = excluded.kind, time_ns = excluded.time_ns"),
      memory_(database,
              "INSERT INTO memory (run_id, rank, step, phase, category, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"),
      sample_(
          database,
          "INSERT INTO samples (run_id, step, sequence, position, head, token_id, text, weight, loss, reference_loss) "
          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"),
      checkpoint_(
          database,
          "INSERT INTO checkpoints (run_id, step, path, bytes, state, time_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6) "
          "ON CONFLICT (run_id, path) DO UPDATE "
          "SET step = excluded.step, bytes = excluded.bytes, state = excluded.state, time_ns = excluded.time_ns"),
      event_(database,
             "INSERT INTO events (run_id, time_ns, rank, level, kind, step, message) "
             "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"),
      heartbeat_(database, "UPDATE runs SET heartbeat_at = ?2 WHERE id = ?1"),
      incomplete_(database, "UPDATE runs SET log_incomplete = 1 WHERE id = ?1") {}

void RowWriter::write(const Record& record) {
  std::visit([this](const auto& one) { write(one); }, record);
}

void RowWriter::heartbeat() { heartbeat_.run(run_id_, utc_now()); }

void RowWriter::mark_incomplete() { incomplete_.run(run_id_); }

void RowWriter::write(const MetricsRecord& record) {
  for (const auto& [name, value] : record.values) {
    const char* kind = kind_of(value);
    metric_.run(run_id_, name_id(name), record.step, kind ? std::nullopt : std::optional(value),
                kind ? std::optional<std::string>(kind) : std::nullopt, record.time_ns);
  }
}

void RowWriter::write(const MemoryRecords& record) {
  for (const MemoryRecord& one : record.values) {
    memory_.run(run_id_, one.rank, one.step, one.phase, one.category, one.bytes);
  }
}

void RowWriter::write(const SampleRecords& record) {
  for (const SampleRecord& one : record.values) {
    sample_.run(run_id_, record.step, one.sequence, one.position, one.head, one.token_id, one.text, one.weight,
                one.loss, one.reference_loss);
  }
}

void RowWriter::write(const CheckpointRecord& record) {
  checkpoint_.run(run_id_, record.step, record.path, record.bytes, record.state, record.time_ns);
}

void RowWriter::write(const EventRecord& record) {
  event_.run(run_id_, record.time_ns, record.rank, record.level, record.kind, record.step, record.message);
}

int64_t RowWriter::name_id(const std::string& name) {
  const auto known = name_ids_.find(name);
  if (known != name_ids_.end()) return known->second;
  add_name_.run(name);
  find_name_.bind(1, name);
  find_name_.step();
  const int64_t id = find_name_.integer(0);
  find_name_.reset();
  name_ids_.emplace(name, id);
  return id;
}

}  // namespace wmtp
