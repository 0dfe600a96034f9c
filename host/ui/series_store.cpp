#include "ui/series_store.hpp"

#include <algorithm>

#include "log/records.hpp"

namespace wmtp {
namespace {

constexpr const char* newest_row = "SELECT coalesce(max(rowid), 0) FROM metric_values";

constexpr const char* new_rows = R"sql(
  SELECT rowid, step, value, kind, time_ns, run_id, name_id
  FROM metric_values WHERE rowid > ?1 AND rowid <= ?2 ORDER BY rowid)sql";

constexpr const char* series_rows_sql = R"sql(
  SELECT rowid, step, value, kind, time_ns
  FROM metric_values WHERE run_id = ?1 AND name_id = ?2 AND +rowid <= ?3 ORDER BY step)sql";

constexpr const char* run_start_sql =
    "SELECT CAST(strftime('%s', started_at) AS INTEGER), parent_run IS NOT NULL FROM runs WHERE id = ?1";

constexpr const char* curve_rows_sql = R"sql(
  SELECT row, step, value, kind, time_ns, segment FROM v_curves WHERE run_id = ?1 AND name = ?2 AND row <= ?3
  ORDER BY step)sql";

/// With the seconds from its start to the last step that it contributes.
constexpr const char* run_segments_sql = R"sql(
  SELECT l.segment, l.before_step, CAST(strftime('%s', r.started_at) AS INTEGER) AS started, coalesce(
    (SELECT time_ns / 1e9 FROM metric_values WHERE run_id = l.segment AND step < l.before_step
     AND name_id = (SELECT id FROM metric_names WHERE name = 'train/loss') ORDER BY step DESC LIMIT 1)
    - CAST(strftime('%s', r.started_at) AS INTEGER), 0)
  FROM v_lineage AS l JOIN runs AS r ON r.id = l.segment WHERE l.run_id = ?1 ORDER BY l.segment)sql";

/// Inserts by step, which is an append except for rows written late.
void add(MetricSeries& series, const Statement& row, double started) {
  const auto step = double(row.integer(1));
  const auto place = std::upper_bound(series.step.begin(), series.step.end(), step) - series.step.begin();
  const int64_t rowid = row.integer(0);
  series.seconds.insert(series.seconds.begin() + place, double(row.integer(4)) / 1e9 - started);
  series.value.insert(series.value.begin() + place, logged_number(row, 2, 3));
  series.rowid.insert(series.rowid.begin() + place, rowid);
  series.step.insert(series.step.begin() + place, step);
  series.newest = std::max(series.newest, rowid);
}

}  // namespace

SeriesStore::SeriesStore(const LogReader& log) : log_(log) {
  log_.each_row(newest_row, {}, [&](const Statement& row) { cursor_ = row.integer(0); });
}

std::set<int64_t> SeriesStore::sync() {
  ++now_;
  int64_t newest = 0;
  log_.each_row(newest_row, {}, [&](const Statement& row) { newest = row.integer(0); });
  if (newest - cursor_ > max_new_rows) {  // reloading the requested curves is faster than reading all new rows
    kept_.clear();
    cursor_ = newest;
    std::set<int64_t> runs;
    log_.each_row("SELECT id FROM runs", {}, [&](const Statement& row) { runs.insert(row.integer(0)); });
    return runs;
  }
  std::set<int64_t> runs;
  log_.each_row(new_rows, {cursor_, newest}, [&](const Statement& row) {
    runs.insert(row.integer(5));
    const auto found = kept_.find({row.integer(5), row.integer(6)});
    if (found == kept_.end()) return;
    if (!found->second.is_resumed) return add(found->second.series, row, found->second.started);
    shortened_ += found->second.has_begun ? 0 : 1;
    kept_.erase(found);
  });
  cursor_ = newest;
  forget_unused();
  return runs;
}

const MetricSeries& SeriesStore::series(int64_t run, const std::string& name) {
  static const MetricSeries empty;
  const int64_t name_id = id_of(name);
  if (name_id == 0) return empty;
  const auto [place, is_new] = kept_.try_emplace({run, name_id});
  Kept& kept = place->second;
  kept.used = now_;
  if (is_new) load(run, name, name_id, kept);
  return kept.series;
}

int64_t SeriesStore::id_of(const std::string& name) {
  const auto known = ids_.find(name);
  if (known != ids_.end()) return known->second;
  int64_t id = 0;
  log_.each_row("SELECT id FROM metric_names WHERE name = ?1", {name},
                [&](const Statement& row) { id = row.integer(0); });
  if (id != 0) ids_[name] = id;
  return id;
}

void SeriesStore::load(int64_t run, const std::string& name, int64_t name_id, Kept& kept) const {
  log_.each_row(run_start_sql, {run}, [&](const Statement& row) {
    kept.started = row.real(0);
    kept.is_resumed = row.integer(1) != 0;
  });
  if (kept.is_resumed) return load_segments(run, name, kept);
  log_.each_row(series_rows_sql, {run, name_id, cursor_},
                [&](const Statement& row) { add(kept.series, row, kept.started); });
}

void SeriesStore::load_segments(int64_t run, const std::string& name, Kept& kept) const {
  std::map<int64_t, double> zero;  // of each segment's clock, so that the next one goes on where it ended
  double passed = 0, next_step = 0;
  log_.each_row(run_segments_sql, {run}, [&](const Statement& row) {
    if (!zero.empty()) kept.series.starts.push_back({row.integer(0), next_step, passed});
    zero[row.integer(0)] = row.real(2) - passed;
    next_step = double(row.integer(1));
    passed += row.real(3);
  });
  log_.each_row(curve_rows_sql, {run, name, cursor_}, [&](const Statement& row) {
    add(kept.series, row, zero[row.integer(5)]);
    kept.has_begun = kept.has_begun || row.integer(5) == run;
  });
  // A segment without a step yet has no place in the curve.
  std::erase_if(kept.series.starts, [](const SegmentStart& start) { return start.step > 9e18; });
}

void SeriesStore::forget_unused() {
  size_t points = 0;
  for (const auto& [key, kept] : kept_) points += kept.series.step.size();
  while (points > max_points) {
    const auto oldest = std::min_element(kept_.begin(), kept_.end(),
                                         [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    points -= oldest->second.series.step.size();
    kept_.erase(oldest);
  }
}

}  // namespace wmtp
