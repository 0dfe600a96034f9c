// The rows that a run adds to its log: how a record becomes rows, and a row an INSERT statement. The writer binds its
// columns; the spool keeps them as a line of JSON, of which the next program makes the same row.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "log/records.hpp"

namespace wmtp {

struct LogTable {
  const char* name;
  std::vector<std::string> columns;  ///< besides run_id
  const char* key = nullptr;         ///< if set, a later row with this key replaces the row that is there
  const char* order = nullptr;       ///< which of two rows with the same key is later
};

inline const LogTable metrics_table{
    "metrics", {"name", "step", "value", "kind", "time_ns"}, "run_id, name_id, step", "time_ns"};
inline const LogTable memory_table{"memory", {"rank", "step", "phase", "category", "bytes"}};
inline const LogTable rank_times_table{
    "rank_times", {"rank", "step", "phase", "seconds"}, "run_id, rank, phase, step", "seconds"};
inline const LogTable samples_table{
    "samples", {"step", "sequence", "position", "head", "token_id", "text", "weight", "loss", "reference_loss"}};
inline const LogTable sample_alignments_table{"sample_alignments",
                                              {"step", "sequence", "position", "head", "product", "cosine"}};
inline const LogTable generations_table{"generations", {"step", "number", "prompt", "text"}};
inline const LogTable checkpoints_table{
    "checkpoints", {"step", "path", "bytes", "state", "time_ns"}, "run_id, path", "time_ns"};
inline const LogTable events_table{"events", {"time_ns", "rank", "level", "kind", "step", "message"}};

inline const LogTable* const log_tables[] = {
    &metrics_table,           &memory_table,      &rank_times_table,  &samples_table,
    &sample_alignments_table, &generations_table, &checkpoints_table, &events_table};

/// Calls on_row(table, the values of its columns…) for each row of the record.
template <class OnRow>
void each_row(const LogRecord& record, const OnRow& on_row) {
  if (const auto* metrics = std::get_if<MetricsRecord>(&record)) {
    for (const auto& [name, value] : metrics->values) {
      const char* kind = non_finite_name(value);
      on_row(metrics_table, name, metrics->step, kind ? std::nullopt : std::optional(value),
             kind ? std::optional<std::string>(kind) : std::nullopt, metrics->time_ns);
    }
  } else if (const auto* memory = std::get_if<MemoryRecords>(&record)) {
    for (const auto& one : memory->values) on_row(memory_table, one.rank, one.step, one.phase, one.category, one.bytes);
  } else if (const auto* times = std::get_if<RankTimes>(&record)) {
    for (const auto& one : times->values) on_row(rank_times_table, one.rank, one.step, one.phase, one.seconds);
  } else if (const auto* samples = std::get_if<SampleRecords>(&record)) {
    for (const auto& one : samples->values)
      on_row(samples_table, samples->step, one.sequence, one.position, one.head, one.token_id, one.text, one.weight,
             one.loss, one.reference_loss);
  } else if (const auto* alignments = std::get_if<SampleAlignments>(&record)) {
    for (const auto& one : alignments->values)
      on_row(sample_alignments_table, alignments->step, one.sequence, one.position, one.head, one.product, one.cosine);
  } else if (const auto* texts = std::get_if<Generations>(&record)) {
    for (const auto& one : texts->values) on_row(generations_table, texts->step, one.number, one.prompt, one.text);
  } else if (const auto* checkpoint = std::get_if<CheckpointRecord>(&record)) {
    on_row(checkpoints_table, checkpoint->step, checkpoint->path, checkpoint->bytes, checkpoint->state,
           checkpoint->time_ns);
  } else {
    const auto& event = std::get<EventRecord>(record);
    on_row(events_table, event.time_ns, event.rank, event.level, event.kind, event.step, event.message);
  }
}

/// Before a metric's first row.
inline constexpr const char* add_metric_name = "INSERT OR IGNORE INTO metric_names (name) VALUES (?1)";

enum class RowSource { values, spool_line };

/// Adds a row to run ?1: of ?2, ?3, … in the order of the table's columns, or of the line ?2, which leaves out a row
/// that is there and never replaces a later one.
inline std::string insertion(const LogTable& table, RowSource source) {
  const bool is_line = source == RowSource::spool_line, is_metric = &table == &metrics_table;
  const std::string into = is_metric ? "metric_values" : table.name;
  std::string columns = "run_id", values = "?1", changes;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    std::string column = table.columns[i];
    std::string value = is_line ? "?2 ->> '" + column + "'" : "?" + std::to_string(i + 2);
    if (is_metric && column == "name") {
      column = "name_id";
      value = "(SELECT id FROM metric_names WHERE name = " + value + ")";
    }
    columns += ", " + column;
    values += ", " + value;
    changes += (i > 0 ? ", " : "") + column + " = excluded." + column;
  }
  std::string sql = std::string(is_line ? "INSERT OR IGNORE" : "INSERT") + " INTO " + into + " (" + columns +
                    ") VALUES (" + values + ")";
  if (!table.key) return sql;
  sql += std::string(" ON CONFLICT (") + table.key + ") DO UPDATE SET " + changes;
  return is_line ? sql + " WHERE excluded." + table.order + " > " + into + "." + table.order : sql;
}

}  // namespace wmtp
