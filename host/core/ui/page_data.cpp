#include "core/ui/page_data.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/text.hpp"
#include "core/report/compare.hpp"

namespace wmtp {
namespace {

constexpr const char* all_params = R"sql(
  SELECT key, value_text FROM run_params WHERE run_id = ?1 ORDER BY key)sql";

constexpr const char* memory_rows = R"sql(
  SELECT rank, step, phase, category, bytes FROM memory WHERE run_id = ?1 ORDER BY rowid LIMIT 200000)sql";

constexpr const char* newest_events = R"sql(
  SELECT run, time, rank, level, kind, step, message, seconds FROM (
    SELECT e.rowid AS row, e.run_id AS run, e.time_ns / 1e9 AS time, e.rank, e.level, e.kind, e.step, e.message,
      e.time_ns / 1e9 - CAST(strftime('%s', r.started_at) AS INTEGER) AS seconds
    FROM events AS e JOIN runs AS r ON r.id = e.run_id
    WHERE e.run_id = ?1 AND e.rowid > ?2 ORDER BY e.rowid DESC LIMIT 2000)
  ORDER BY row)sql";

constexpr const char* token_rows = R"sql(
  SELECT position, head, token_id, text, weight, loss, reference_loss
  FROM samples WHERE run_id = ?1 AND step = ?2 AND sequence = ?3 ORDER BY head, position)sql";

constexpr size_t most_new_points = 5'000;  ///< per curve and refresh; above this the page reloads all curves

constexpr const char* deleted_runs = R"sql(
  SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'runs'), 0) - (SELECT count(*) FROM runs))sql";

/// Detects rows of v_runs that must be read again, without the view's slow parts.
constexpr const char* run_states = R"sql(
  SELECT id, status || '|' || coalesce(ended_at, '') || '|' || heartbeat_at || '|' || log_incomplete || '|' ||
    (status = 'running' AND heartbeat_at < strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-60 seconds'))
  FROM runs)sql";

constexpr const char* newest_event = "SELECT coalesce(max(rowid), 0) FROM events";

/// Nine significant digits, the precision of fp32; "nan", "inf" or "-inf" if not finite.
PageJson number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.9g", value);
  return std::strtod(digits, nullptr);
}

PageJson cell_json(const nlohmann::json& cell) {
  return cell.is_number_float() ? number_json(cell.get<double>()) : PageJson(cell);
}

std::string file_identity(const std::filesystem::path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return "";
  return std::to_string(found.st_dev) + ":" + std::to_string(found.st_ino);
}

int64_t only_number(const LogReader& log, const char* sql) {
  int64_t number = 0;
  log.each_row(sql, {}, [&](const Statement& row) { number = row.integer(0); });
  return number;
}

PageJson points_json(const MetricSeries& series, const std::vector<double>& values, const std::vector<size_t>& which) {
  PageJson step = PageJson::array(), seconds = PageJson::array(), value = PageJson::array();
  for (const size_t i : which) {
    step.push_back(static_cast<int64_t>(series.step[i]));
    seconds.push_back(std::round(series.seconds[i] * 1000) / 1000);
    value.push_back(number_json(values[i]));
  }
  return {{"step", step}, {"seconds", seconds}, {"value", value}};
}

const std::vector<double>& x_of(const MetricSeries& series, const CurvesRequest& request) {
  return request.by_time ? series.seconds : series.step;
}

Window window_of(SeriesStore& store, const CurvesRequest& request) {
  Window window{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), request.cells};
  for (const int64_t run : request.runs) {
    for (const std::string& name : request.names) {
      const auto& x = x_of(store.series(run, name), request);
      if (x.empty()) continue;
      window.from = std::min(window.from, x.front());
      window.to = std::max(window.to, x.back());
    }
  }
  window.from = request.from.value_or(window.from);
  window.to = request.to.value_or(window.to);
  return window;
}

PageJson curve_json(const MetricSeries& series, const CurvesRequest& request, const Window& window) {
  const auto& x = x_of(series, request);
  PageJson curve{{"points", series.step.size()},
                 {"raw", points_json(series, series.value, thinned(x, series.value, window))},
                 {"not_finite", points_json(series, series.value, not_finite(x, series.value, window))}};
  if (request.smoothing > 0) {
    const std::vector<double> means = smoothed(series.step, series.value, request.smoothing);
    curve["smooth"] = points_json(series, means, thinned(x, means, window));
  }
  return curve;
}

/// Points after the cursor, or nullopt if there are too many.
std::optional<PageJson> new_points(const MetricSeries& series, double smoothing, int64_t cursor) {
  std::vector<size_t> which;
  for (size_t i = 0; i < series.rowid.size(); ++i)
    if (series.rowid[i] > cursor) which.push_back(i);
  if (which.size() > most_new_points) return std::nullopt;
  PageJson points = points_json(series, series.value, which);
  if (smoothing > 0)
    points["smooth"] = points_json(series, smoothed(series.step, series.value, smoothing), which)["value"];
  return points;
}

}  // namespace

PageData::PageData(std::filesystem::path database) : path_(std::move(database)) { open_if_changed(); }

std::unique_lock<std::mutex> PageData::locked() {
  std::unique_lock lock(mutex_);
  open_if_changed();
  return lock;
}

/// An empty log is reopened each time: the file may have been missing or empty.
void PageData::open_if_changed() {
  const std::string file = file_identity(path_);
  if (log_ && file == file_ && !known_.empty()) return;
  if (log_ && file == file_ && only_number(*log_, "SELECT count(*) FROM runs") > 0) return;
  series_.reset();
  log_ = std::make_unique<LogReader>(path_, std::chrono::seconds(10));
  series_ = std::make_unique<SeriesStore>(*log_);
  known_.clear();
  if (file != file_ || opened_ == 0) opened_ = now_ns();
  file_ = file;
}

void PageData::read_runs() {
  open_if_changed();
  const std::string epoch = std::to_string(opened_) + "-" + std::to_string(only_number(*log_, deleted_runs));
  if (epoch != epoch_) {
    series_ = std::make_unique<SeriesStore>(*log_);
    known_.clear();
    epoch_ = epoch;
  }
  const std::set<int64_t> with_new_metrics = series_->sync();
  std::map<int64_t, std::string> states;
  log_->each_row(run_states, {}, [&](const Statement& row) { states[row.integer(0)] = row.text(1); });
  const bool all = known_.empty();
  std::string condition;
  for (const auto& [run, state] : states) {
    KnownRun& known = known_[run];
    if (!all && known.state == state && !with_new_metrics.contains(run)) continue;
    known.state = state;
    condition += (condition.empty() ? "" : ", ") + std::to_string(run);
  }
  if (condition.empty()) return;
  const Table table = log_->query("SELECT * FROM v_runs" + (all ? "" : " WHERE id IN (" + condition + ")"));
  ++version_;
  for (const auto& cells : table.rows) {
    PageJson row;
    for (size_t i = 0; i < cells.size(); ++i) row[table.columns[i]] = cell_json(cells[i]);
    KnownRun& known = known_[row["id"].get<int64_t>()];
    if (known.row == row) continue;
    known.row = std::move(row);
    known.version = version_;
  }
}

PageJson PageData::cursors() const {
  return {{"epoch", epoch_},
          {"version", version_},
          {"cursor", series_->cursor()},
          {"event_cursor", only_number(*log_, newest_event)}};
}

PageJson PageData::metric_names() const {
  PageJson names = PageJson::array();
  log_->each_row("SELECT name FROM metric_names ORDER BY name", {},
                 [&](const Statement& row) { names.push_back(row.text(0)); });
  return names;
}

PageJson PageData::runs() {
  const std::lock_guard lock(mutex_);
  read_runs();
  PageJson answer = cursors();
  answer["database"] = path_.string();
  answer["names"] = metric_names();
  answer["runs"] = PageJson::array();
  for (auto run = known_.rbegin(); run != known_.rend(); ++run) answer["runs"].push_back(run->second.row);
  return answer;
}

PageJson PageData::curves(const CurvesRequest& request) {
  const std::lock_guard lock(mutex_);
  read_runs();
  const Window window = window_of(*series_, request);
  PageJson answer = cursors();
  answer["curves"] = PageJson::array();
  for (const int64_t run : request.runs) {
    for (const std::string& name : request.names) {
      const MetricSeries& series = series_->series(run, name);
      if (series.step.empty()) continue;
      PageJson curve{{"run", run}, {"name", name}};
      curve.update(curve_json(series, request, window));
      answer["curves"].push_back(std::move(curve));
    }
  }
  return answer;
}

PageJson PageData::refresh(const RefreshRequest& request) {
  const std::lock_guard lock(mutex_);
  read_runs();
  if (request.epoch != epoch_ || request.version > version_) return {{"reset", true}};
  PageJson answer = cursors();
  answer["names"] = metric_names();
  answer["runs"] = PageJson::array();
  for (auto run = known_.rbegin(); run != known_.rend(); ++run)
    if (run->second.version > request.version) answer["runs"].push_back(run->second.row);
  answer["new"] = PageJson::array();
  for (const int64_t run : request.shown.runs) {
    for (const std::string& name : request.shown.names) {
      const MetricSeries& series = series_->series(run, name);
      if (series.newest <= request.cursor) continue;
      std::optional<PageJson> points = new_points(series, request.shown.smoothing, request.cursor);
      if (!points) return {{"reset", true}};
      PageJson curve{{"run", run}, {"name", name}};
      curve.update(*points);
      answer["new"].push_back(std::move(curve));
    }
  }
  answer["events"] = events_after(request.event_cursor, request.shown.runs);
  return answer;
}

PageJson PageData::params(const std::vector<int64_t>& runs) {
  const auto lock = locked();
  const Table table = runs.size() == 1 ? log_->query(all_params, {runs[0]}) : differing_params(*log_, runs);
  PageJson rows = PageJson::array();
  for (const auto& row : table.rows)
    rows.push_back({{"key", row[0]}, {"values", std::vector<nlohmann::json>(row.begin() + 1, row.end())}});
  return {{"runs", runs}, {"rows", rows}};
}

PageJson PageData::memory(int64_t run) {
  const auto lock = locked();
  const Table table = log_->query(memory_rows, {run});
  return {{"run", run}, {"columns", table.columns}, {"rows", table.rows}};
}

PageJson PageData::events_after(int64_t row, const std::vector<int64_t>& runs) const {
  PageJson events = PageJson::array();
  for (const int64_t run : runs) {
    const Table table = log_->query(newest_events, {run, row});
    for (const Row& cells : table.rows) {
      PageJson& event = events.emplace_back();
      for (size_t i = 0; i < cells.size(); ++i) event[table.columns[i]] = cells[i];
    }
  }
  return events;
}

PageJson PageData::events(const std::vector<int64_t>& runs) {
  const auto lock = locked();
  return events_after(0, runs);
}

PageJson PageData::sampled(int64_t run) {
  const auto lock = locked();
  PageJson sampled{{"run", run}};
  for (const std::string column : {"step", "sequence", "head"}) {
    PageJson& values = sampled[column + "s"] = PageJson::array();
    log_->each_row("SELECT DISTINCT " + column + " FROM samples WHERE run_id = ?1 ORDER BY 1", {run},
                   [&](const Statement& row) { values.push_back(row.integer(0)); });
  }
  return sampled;
}

PageJson PageData::tokens(int64_t run, int64_t step, int64_t sequence) {
  const auto lock = locked();
  const Table table = log_->query(token_rows, {run, step, sequence});
  PageJson columns;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    PageJson& values = columns[table.columns[i]] = PageJson::array();
    for (const Row& cells : table.rows) values.push_back(cell_json(cells[i]));
  }
  return {{"run", run}, {"step", step}, {"sequence", sequence}, {"columns", columns}};
}

}  // namespace wmtp
