// Records in the queue of the run log, one per call, with the call's time; and RecordSink, which also receives them.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "log/database.hpp"
#include "log/run_log.hpp"

namespace wmtp {

struct MetricsRecord {
  int64_t step = 0, time_ns = 0;
  std::vector<std::pair<std::string, double>> values;
};

struct MemoryRecords {
  std::vector<MemoryRecord> values;
};

struct RankTimes {
  std::vector<RankTime> values;
};

struct SampleRecords {
  int64_t step = 0;
  std::vector<SampleRecord> values;
};

struct SampleAlignments {
  int64_t step = 0;
  std::vector<SampleAlignment> values;
};

struct Generations {
  int64_t step = 0;
  std::vector<Generation> values;
};

struct CheckpointRecord {
  int64_t step = 0, time_ns = 0;
  std::string path;
  int64_t bytes = 0;
  std::string state;
};

struct EventRecord {
  int64_t time_ns = 0, rank = 0;
  std::string level, kind;
  int64_t step = 0;
  std::string message;
};

using LogRecord = std::variant<MetricsRecord, MemoryRecords, RankTimes, SampleRecords, SampleAlignments, Generations,
                               CheckpointRecord, EventRecord>;

inline int64_t num_rows(const LogRecord& record) {
  return std::visit(
      [](const auto& one) -> int64_t {
        if constexpr (requires { one.values; }) return std::ssize(one.values);
        return 1;
      },
      record);
}

/// "nan", "inf", "-inf", or nullptr for a finite number.
inline const char* non_finite_name(double value) {
  if (value != value) return "nan";
  if (value - value == 0) return nullptr;
  return value > 0 ? "inf" : "-inf";
}

/// The number in column `value`, or the one named by column `kind` (see non_finite_name).
inline double logged_number(const Statement& row, int value, int kind) {
  if (!row.null(value)) return row.real(value);
  const double infinity = std::numeric_limits<double>::infinity();
  return row.text(kind) == "inf"    ? infinity
         : row.text(kind) == "-inf" ? -infinity
                                    : std::numeric_limits<double>::quiet_NaN();
}

/// Receives a run's records during training, in addition to the database.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  /// The records since the previous call, each once, in order. An exception disables the sink with an event; the run
  /// and its log continue. [the log's thread]
  virtual void receive(std::deque<LogRecord>::const_iterator begin, std::deque<LogRecord>::const_iterator end) = 0;
};

}  // namespace wmtp
