// A cache of curves at full resolution, so that smoothing and zooming do not read the log again and a refresh reads
// only new rows.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "log/log_reader.hpp"

namespace wmtp {

/// The first point of a segment after the first (v_lineage).
struct SegmentStart {
  int64_t run = 0;
  double step = 0, seconds = 0;
};

/// One metric of one run and the runs that it resumed, by ascending step.
struct MetricSeries {
  std::vector<double> step, seconds;  ///< seconds of training since the start of the first segment, without pauses
  std::vector<double> value;          ///< with NaN and infinities
  std::vector<int64_t> rowid;
  int64_t newest = 0;  ///< the largest rowid
  std::vector<SegmentStart> starts;
};

/// [one thread at a time]
class SeriesStore {
 public:
  /// The log must outlive this object.
  explicit SeriesStore(const LogReader& log);

  /// Reads the rows added since the last call and returns their runs. Evicts the least recently used curves beyond
  /// `max_points`.
  std::set<int64_t> sync();
  /// How often a resumed run logged its first row after one of its curves was read, which then ended too late: its
  /// parent's steps after the checkpoint are not part of the curve.
  int64_t shortened() const { return shortened_; }
  /// The last rowid read.
  int64_t cursor() const { return cursor_; }
  /// Empty if unknown. Valid until the next sync().
  const MetricSeries& series(int64_t run, const std::string& name);

 private:
  struct Kept {
    MetricSeries series;
    double started = 0;       ///< seconds since 1970
    bool is_resumed = false;  ///< has several segments: read again after every new row
    bool has_begun = false;   ///< its last segment has rows
    int64_t used = 0;         ///< the number of the sync() before its last use
  };
  int64_t id_of(const std::string& name);  ///< 0 if no metric has it yet
  void load(int64_t run, const std::string& name, int64_t name_id, Kept& kept) const;
  void load_segments(int64_t run, const std::string& name, Kept& kept) const;
  void forget_unused();

  static constexpr size_t max_points = 4'000'000;  // 128 MB
  static constexpr int64_t max_new_rows = 500'000;

  const LogReader& log_;
  std::map<std::string, int64_t> ids_;                ///< of names
  std::map<std::pair<int64_t, int64_t>, Kept> kept_;  ///< by run and name
  int64_t cursor_ = 0, now_ = 0, shortened_ = 0;
};

}  // namespace wmtp
