// A cache of curves at full resolution, so that smoothing and zooming do not read the log again and a refresh reads
// only new rows.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/runlog/log_reader.hpp"

namespace wmtp {

/// One metric of one run, by ascending step.
struct MetricSeries {
  std::vector<double> step, seconds;  ///< seconds since the run's start
  std::vector<double> value;          ///< with NaN and infinities
  std::vector<int64_t> rowid;
  int64_t newest = 0;  ///< the largest rowid
};

/// [one thread at a time]
class SeriesStore {
 public:
  /// The log must outlive this object.
  explicit SeriesStore(const LogReader& log);

  /// Reads the rows added since the last call and returns their runs. Evicts the least recently used curves beyond
  /// `most_points`.
  std::set<int64_t> sync();
  /// The last rowid read.
  int64_t cursor() const { return cursor_; }
  /// Empty if unknown. Valid until the next sync().
  const MetricSeries& series(int64_t run, const std::string& name);

 private:
  struct Kept {
    MetricSeries series;
    double started = 0;  ///< seconds since 1970
    int64_t used = 0;    ///< the number of the sync() before its last use
  };
  void forget_unused();

  static constexpr size_t most_points = 4'000'000;  // 128 MB
  static constexpr int64_t most_new_rows = 500'000;

  const LogReader& log_;
  std::map<std::pair<int64_t, int64_t>, Kept> kept_;  ///< by run and name
  int64_t cursor_ = 0, now_ = 0;
};

}  // namespace wmtp
