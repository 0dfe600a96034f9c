// One run of the log, in the pieces that other programs' formats are made of.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/runlog/log_reader.hpp"
#include "core/runlog/run_log.hpp"

namespace wmtp {

/// A number as it was told: NaN and infinities are values here.
struct LoggedPoint {
  int64_t step = 0;
  double value = 0;
  int64_t time_ns = 0;
};

/// The most bytes of a rank so far: "allocated" by tensors, or "resident", the whole process.
struct LoggedMemory {
  int64_t rank = 0, step = 0;
  std::string category;
  int64_t bytes = 0;
  int64_t time_ns = 0;  ///< of the last step before; the run's start where there is none
};

struct LoggedOption {
  std::string key, text;
  std::optional<double> number;
};

class LoggedRunRows {
 public:
  /// Of a run that is there.
  LoggedRunRows(const LogReader& log, int64_t run_id);

  /// A column of v_runs; NULL is null.
  const nlohmann::json& column(const std::string& name) const { return row_.at(name); }
  /// The same as text, "" for NULL.
  std::string text(const std::string& name) const;
  int64_t started_ns() const { return started_ns_; }
  /// 0 while it runs.
  int64_t ended_ns() const { return ended_ns_; }
  std::string resolved_toml() const;

  /// The resolved experiment, key by key.
  std::vector<LoggedOption> options() const;
  std::vector<RunStart::Plugin> plugins() const;
  std::vector<std::string> metric_names() const;
  /// By step.
  void each_point(const std::string& metric, const std::function<void(const LoggedPoint&)>& visit) const;
  /// By rank, category and step.
  void each_memory(const std::function<void(const LoggedMemory&)>& visit) const;

 private:
  const LogReader& log_;
  std::string id_;
  std::map<std::string, nlohmann::json> row_;
  int64_t started_ns_ = 0, ended_ns_ = 0;
};

}  // namespace wmtp
