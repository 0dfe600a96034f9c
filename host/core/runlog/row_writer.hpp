// Records to rows, by prepared statements, inside a transaction of the caller's.
#pragma once

#include <unordered_map>

#include "core/runlog/database.hpp"
#include "core/runlog/records.hpp"

namespace wmtp {

class RowWriter {
 public:
  RowWriter(Database& database, int64_t run_id);

  void write(const Record& record);
  void heartbeat();
  void mark_incomplete();
  /// After a rollback: names that this transaction added are not in the file.
  void forget_names() { name_ids_.clear(); }

 private:
  void write(const MetricsRecord& record);
  void write(const MemoryRecords& record);
  void write(const SampleRecords& record);
  void write(const CheckpointRecord& record);
  void write(const EventRecord& record);
  int64_t name_id(const std::string& name);

  Database& database_;
  int64_t run_id_;
  std::unordered_map<std::string, int64_t> name_ids_;
  Statement add_name_, find_name_, metric_, memory_, sample_, checkpoint_, event_, heartbeat_, incomplete_;
};

}  // namespace wmtp
