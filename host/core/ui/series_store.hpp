// Curves at full resolution, kept in memory between the page's questions, so that smoothing and zoom do not read the
// log again and a refresh reads only what is new.
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
  std::vector<double> step, seconds;  ///< the latter since the run's start
  std::vector<double> value;          ///< NaN and infinities as the log keeps them
  std::vector<int64_t> rowid;
  int64_t newest = 0;  ///< the largest rowid
};

/// [one thread at a time]
class SeriesStore {
 public:
  /// The log must outlive it.
  explicit SeriesStore(const LogReader& log);

  /// Reads the rows that came since the last call, and returns the runs that have some. What was kept beyond
  /// `most_points` goes, longest unused first.
  std::set<int64_t> sync();
  /// Everything up to this rowid is seen.
  int64_t cursor() const { return cursor_; }
  /// Empty for what is not there. Valid until the next sync().
  const MetricSeries& series(int64_t run, const std::string& name);

 private:
  struct Kept {
    MetricSeries series;
    double started = 0;  ///< seconds since 1970
    int64_t used = 0;    ///< the sync() in whose time it was last asked for
  };
  void forget_unused();

  static constexpr size_t most_points = 4'000'000;  // 128 MB
  static constexpr int64_t most_new_rows = 500'000;

  const LogReader& log_;
  std::map<std::pair<int64_t, int64_t>, Kept> kept_;  ///< by run and name
  int64_t cursor_ = 0, now_ = 0;
};

}  // namespace wmtp
