// One run of the log with the runs that it resumed, as needed by the export formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "log/log_reader.hpp"
#include "log/run_log.hpp"

namespace wmtp {

/// A logged value; may be NaN or infinite.
struct LoggedPoint {
  int64_t step = 0;
  double value = 0;
  int64_t time_ns = 0;
  int64_t segment = 0;  ///< the run that logged it
};

/// Peak memory of a rank so far: "allocated" by tensors, or "resident" in the process.
struct LoggedMemory {
  int64_t rank = 0, step = 0;
  std::string category;
  int64_t bytes = 0;
  int64_t time_ns = 0;  ///< time of the last earlier step; else the run's start
};

struct LoggedOption {
  std::string key, text;
  std::optional<double> number;
};

/// The id of a run in other programs: "1f0c…", 32 hexadecimal digits.
std::string tracked_run_id(const std::filesystem::path& database, int64_t run_id, const std::string& started_at);

class RunExportReader {
 public:
  /// The run must exist.
  RunExportReader(const LogReader& log, int64_t run_id);

  /// A column of v_runs; null for NULL.
  const Json& column(const std::string& name) const { return row_.at(name); }
  /// A column as text, "" for NULL.
  std::string text(const std::string& name) const;
  int64_t started_ns() const { return started_ns_; }
  /// 0 while the run is active.
  int64_t ended_ns() const { return ended_ns_; }
  std::string resolved_toml() const;

  /// The keys of the resolved experiment.
  std::vector<LoggedOption> options() const;
  std::vector<RunStart::Plugin> plugins() const;
  std::vector<std::string> metric_names() const;
  /// Points are ordered by step, over all segments (v_curves).
  void each_point(const std::string& metric, const std::function<void(const LoggedPoint&)>& on_point) const;
  /// Ordered by rank, category and step.
  void each_memory(const std::function<void(const LoggedMemory&)>& on_memory) const;

 private:
  const LogReader& log_;
  int64_t id_;
  std::map<std::string, Json> row_;
  int64_t started_ns_ = 0, ended_ns_ = 0;
};

}  // namespace wmtp
