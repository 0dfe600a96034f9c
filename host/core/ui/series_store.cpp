#include "core/ui/series_store.hpp"

#include <algorithm>

#include "core/runlog/records.hpp"

namespace wmtp {
namespace {

constexpr const char* newest_row = "SELECT coalesce(max(rowid), 0) FROM metric_values";

constexpr const char* new_rows = R"sql(
  SELECT rowid, step, value, kind, time_ns, run_id, name_id
  FROM metric_values WHERE rowid > ?1 AND rowid <= ?2 ORDER BY rowid)sql";

constexpr const char* rows_of_series = R"sql(
  SELECT rowid, step, value, kind, time_ns
  FROM metric_values WHERE run_id = ?1 AND name_id = ?2 AND +rowid <= ?3 ORDER BY step)sql";

constexpr const char* start_of_run = "SELECT CAST(strftime('%s', started_at) AS INTEGER) FROM runs WHERE id = ?1";

/// Inserts by step, which is an append except for rows written late.
void add(MetricSeries& series, const Statement& row, double started) {
  const auto step = static_cast<double>(row.integer(1));
  const auto place = std::upper_bound(series.step.begin(), series.step.end(), step) - series.step.begin();
  const int64_t rowid = row.integer(0);
  series.seconds.insert(series.seconds.begin() + place, static_cast<double>(row.integer(4)) / 1e9 - started);
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
  if (newest - cursor_ > most_new_rows) {  // reloading the requested curves is faster than reading all new rows
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
    if (found != kept_.end()) add(found->second.series, row, found->second.started);
  });
  cursor_ = newest;
  forget_unused();
  return runs;
}

const MetricSeries& SeriesStore::series(int64_t run, const std::string& name) {
  static const MetricSeries empty;
  const Table id = log_.query("SELECT id FROM metric_names WHERE name = ?1", {name});
  if (id.rows.empty()) return empty;
  const int64_t name_id = id.rows[0][0];
  const auto [place, is_new] = kept_.try_emplace({run, name_id});
  Kept& kept = place->second;
  kept.used = now_;
  if (!is_new) return kept.series;
  log_.each_row(start_of_run, {run}, [&](const Statement& row) { kept.started = row.real(0); });
  log_.each_row(rows_of_series, {run, name_id, cursor_},
                [&](const Statement& row) { add(kept.series, row, kept.started); });
  return kept.series;
}

void SeriesStore::forget_unused() {
  size_t points = 0;
  for (const auto& [key, kept] : kept_) points += kept.series.step.size();
  while (points > most_points) {
    const auto oldest = std::min_element(kept_.begin(), kept_.end(),
                                         [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    points -= oldest->second.series.step.size();
    kept_.erase(oldest);
  }
}

}  // namespace wmtp
