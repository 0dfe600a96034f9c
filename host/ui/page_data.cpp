#include "ui/page_data.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <span>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "log/spool.hpp"
#include "report/compare.hpp"
#include "report/rank_times.hpp"
#include "report/runs.hpp"
#include "ui/run_configs.hpp"

namespace wmtp {
namespace {

constexpr const char* all_params = R"sql(
  SELECT key, value_text FROM run_params WHERE run_id = ?1 ORDER BY key)sql";

constexpr const char* memory_rows = R"sql(
  SELECT rank, step, phase, category, bytes FROM memory WHERE run_id = ?1 ORDER BY rowid LIMIT 200000)sql";

constexpr const char* newest_events = R"sql(
  SELECT run, segment, time, rank, level, kind, step, message, seconds FROM (
    SELECT e.rowid AS row, ?1 AS run, l.segment, e.time_ns / 1e9 AS time, e.rank, e.level, e.kind, e.step, e.message,
      e.time_ns / 1e9 - CAST(strftime('%s', r.started_at) AS INTEGER) AS seconds
    FROM v_lineage AS l JOIN events AS e ON e.run_id = l.segment JOIN runs AS r ON r.id = e.run_id
    WHERE l.run_id = ?1 AND e.rowid > ?2 ORDER BY e.rowid DESC LIMIT 2000)
  ORDER BY row)sql";

constexpr const char* study_reports = R"sql(
  SELECT study, made_ns / 1e9 AS made, report, curves, differences FROM study_reports
  WHERE length(report) + length(curves) + length(differences) < 16777216 ORDER BY made_ns DESC, study LIMIT 100)sql";

constexpr const char* one_run = R"sql(
  SELECT v.*, c.command, r.experiment_toml, r.resolved_toml FROM v_runs AS v JOIN runs AS r ON r.id = v.id
  LEFT JOIN run_commands AS c ON c.run_id = v.id WHERE v.id = ?1)sql";

constexpr const char* run_segments_sql = R"sql(
  SELECT l.segment AS run, s.status, s.started_at, s.ended_at, s.world_size,
    (SELECT min(step) FROM metrics WHERE run_id = l.segment AND name = 'train/loss') AS first_step,
    (SELECT max(step) FROM metrics WHERE run_id = l.segment AND name = 'train/loss' AND step < l.before_step)
      AS last_step
  FROM v_lineage AS l JOIN runs AS s ON s.id = l.segment WHERE l.run_id = ?1 ORDER BY l.segment)sql";

constexpr const char* run_checkpoints_sql = R"sql(
  SELECT run_id AS run, step, state, bytes, path FROM checkpoints
  WHERE run_id IN (SELECT segment FROM v_lineage WHERE run_id = ?1) ORDER BY run_id, step, path LIMIT 1000)sql";

constexpr const char* run_generations_sql = R"sql(
  SELECT g.step, g.prompt, substr(g.text, 1, 4000) AS text
  FROM v_lineage AS l JOIN generations AS g ON g.run_id = l.segment AND g.step < l.before_step
  WHERE l.run_id = ?1 ORDER BY g.step DESC, g.number LIMIT 1000)sql";

constexpr const char* run_evaluations_sql = R"sql(
  SELECT id, suite, temperature, problems, answers, passed, pass_at_1, time FROM v_evaluations
  WHERE run_id = ?1 ORDER BY id)sql";

constexpr const char* run_answers_sql = R"sql(
  SELECT a.evaluation_id AS evaluation, a.task_id AS task, a.sample, a.verdict, a.seconds,
    substr(a.answer, 1, 4000) AS answer, substr(a.told, 1, 1000) AS told
  FROM evaluations AS e JOIN evaluation_answers AS a ON a.evaluation_id = e.id
  WHERE e.run_id = ?1 ORDER BY e.id, a.task_id, a.sample LIMIT 1000)sql";

constexpr const char* run_text_losses_sql = R"sql(
  SELECT texts, stride, head, tokens, loss, bits_per_byte, time FROM v_text_losses WHERE run_id = ?1
  ORDER BY id, head LIMIT 1000)sql";

constexpr const char* token_rows = R"sql(
  SELECT s.position, s.head, token_id, text, weight, loss, reference_loss, product, cosine
  FROM v_lineage AS l JOIN samples AS s ON s.run_id = l.segment AND s.step < l.before_step
  LEFT JOIN sample_alignments AS a ON a.run_id = s.run_id AND a.step = s.step AND a.sequence = s.sequence
    AND a.position = s.position AND a.head = s.head
  WHERE l.run_id = ?1 AND s.step = ?2 AND s.sequence = ?3 ORDER BY s.head, s.position)sql";

constexpr size_t max_new_points = 5'000;  ///< per curve and refresh; above this the page reloads all curves
constexpr size_t max_new_runs = 1'000;    ///< of a refresh; above this the page reloads all runs

constexpr const char* deleted_runs = R"sql(
  SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'runs'), 0) - (SELECT count(*) FROM runs))sql";

/// Detects rows of v_runs that must be read again, without the view's slow parts.
constexpr const char* run_states = R"sql(
  SELECT id, status || '|' || coalesce(ended_at, '') || '|' || heartbeat_at || '|' || log_incomplete || '|' ||
    (status = 'running' AND heartbeat_at < strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-60 seconds')) || '|' || name ||
    '|' || coalesce((SELECT max(id) FROM runs AS c WHERE c.parent_run = runs.id), '') ||
    '|' || coalesce((SELECT note FROM run_notes WHERE run_id = runs.id), '') ||
    '|' || coalesce((SELECT group_concat(tag) FROM run_tags WHERE run_id = runs.id), '') ||
    '|' || (SELECT count(*) FROM archived_runs WHERE run_id = runs.id)
  FROM runs)sql";

constexpr const char* newest_event = "SELECT coalesce(max(rowid), 0) FROM events";

SharedText shared(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

OrderedJson cell_json(const Json& cell) {
  return cell.is_number_float() ? number_json(cell.get<double>()) : OrderedJson(cell);
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

/// The tokens trained at a step, between the logged ones on a line through 0; NaN if none are logged.
double tokens_at(const MetricSeries& tokens, double step) {
  if (tokens.step.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto place = size_t(std::lower_bound(tokens.step.begin(), tokens.step.end(), step) - tokens.step.begin());
  const size_t after = std::min(place, tokens.step.size() - 1);
  const double from = after == 0 ? 0 : tokens.step[after - 1], before = after == 0 ? 0 : tokens.value[after - 1];
  const double share = tokens.step[after] > from ? (step - from) / (tokens.step[after] - from) : 1;
  return before + share * (tokens.value[after] - before);
}

/// A curve with the x of its points.
class DrawnSeries {
 public:
  DrawnSeries(SeriesStore& store, int64_t run, const std::string& name, Axis axis)
      : series(store.series(run, name)), axis_(axis), tokens_(store.series(run, "train/tokens")) {
    if (axis != Axis::tokens) return;
    for (const double step : series.step) trained_.push_back(tokens_at(tokens_, step));
  }

  const MetricSeries& series;
  double tokens(size_t point) const { return tokens_at(tokens_, series.step[point]); }
  const std::vector<double>& x() const {
    return axis_ == Axis::step ? series.step : axis_ == Axis::time ? series.seconds : trained_;
  }

 private:
  Axis axis_;
  const MetricSeries& tokens_;
  std::vector<double> trained_;  ///< of each point, if it is the axis: a refresh looks at few points of long curves
};

OrderedJson points_json(const DrawnSeries& drawn, const std::vector<double>& values, const std::vector<size_t>& which) {
  OrderedJson step = OrderedJson::array(), seconds = OrderedJson::array(), tokens = OrderedJson::array(),
              value = OrderedJson::array();
  for (const size_t i : which) {
    step.push_back(int64_t(drawn.series.step[i]));
    seconds.push_back(std::round(drawn.series.seconds[i] * 1000) / 1000);
    const double trained = drawn.tokens(i);
    tokens.push_back(std::isfinite(trained) ? OrderedJson(std::round(trained)) : OrderedJson());
    value.push_back(number_json(values[i]));
  }
  return {{"step", step}, {"seconds", seconds}, {"tokens", tokens}, {"value", value}};
}

/// Appends without a search for the key, which an OrderedJson does from its beginning.
void append(OrderedJson& object, const std::string& new_key, OrderedJson value) {
  object.get_ref<OrderedJson::object_t&>().emplace_back(new_key, std::move(value));
}

OrderedJson object_of(const std::vector<std::string>& columns, const Row& cells) {
  OrderedJson object = OrderedJson::object();
  for (size_t i = 0; i < cells.size(); ++i) append(object, columns[i], cell_json(cells[i]));
  return object;
}

OrderedJson objects_of(const Table& table) {
  OrderedJson rows = OrderedJson::array();
  for (const Row& cells : table.rows) rows.push_back(object_of(table.columns, cells));
  return rows;
}

Window x_window(SeriesStore& store, const CurvesRequest& request) {
  Window window{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), request.cells};
  for (const int64_t run : request.runs) {
    for (const std::string& name : request.names) {
      const DrawnSeries drawn(store, run, name, request.axis);
      const auto& x = drawn.x();
      if (x.empty() || std::isnan(x.front())) continue;
      window.from = std::min(window.from, x.front());
      window.to = std::max(window.to, x.back());
    }
  }
  window.from = request.from.value_or(window.from);
  window.to = request.to.value_or(window.to);
  return window;
}

/// The steps of the points in the window.
std::span<const double> steps_within(const DrawnSeries& drawn, const Window& window) {
  const auto& x = drawn.x();
  const auto begin = std::lower_bound(x.begin(), x.end(), window.from),
             end = std::upper_bound(begin, x.end(), window.to);
  return std::span(drawn.series.step).subspan(size_t(begin - x.begin()), size_t(end - begin));
}

OrderedJson curve_json(const DrawnSeries& drawn, const CurvesRequest& request, const Window& window,
                       const std::vector<double>& shared) {
  const MetricSeries& series = drawn.series;
  const auto& x = drawn.x();
  const auto points = [&](const std::vector<double>& values) {
    return points_json(drawn, values, with_steps(downsampled(x, values, window), series.step, values, shared));
  };
  OrderedJson curve{{"points", series.step.size()},
                    {"last_step", int64_t(series.step.back())},
                    {"every", usual_distance(series.step)},
                    {"can_be_smoothed", can_be_smoothed(series.value)},
                    {"raw", points(series.value)},
                    {"not_finite", points_json(drawn, series.value, not_finite(x, series.value, window))}};
  if (request.smoothing > 0) curve["smooth"] = points(smoothed(series.step, series.value, request.smoothing));
  if (!series.starts.empty()) {
    OrderedJson& segments = curve["segments"] = OrderedJson::array();
    for (const SegmentStart& start : series.starts)
      segments.push_back({{"run", start.run}, {"step", start.step}, {"seconds", start.seconds}});
  }
  return curve;
}

/// Points after the cursor, or nullopt if there are too many.
std::optional<OrderedJson> new_points(const DrawnSeries& drawn, double smoothing, int64_t cursor) {
  const MetricSeries& series = drawn.series;
  std::vector<size_t> which;
  for (size_t i = 0; i < series.rowid.size(); ++i)
    if (series.rowid[i] > cursor) which.push_back(i);
  if (which.size() > max_new_points) return std::nullopt;
  OrderedJson points = points_json(drawn, series.value, which);
  if (smoothing > 0)
    points["smooth"] = points_json(drawn, smoothed(series.step, series.value, smoothing), which)["value"];
  return points;
}

}  // namespace

OrderedJson number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.9g", value);
  return std::strtod(digits, nullptr);
}

PageData::PageData(std::filesystem::path database) : path_(std::move(database)) { read_runs(); }

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
  load_spools(path_);
  open_if_changed();
  const std::string epoch = std::to_string(opened_) + "-" + std::to_string(only_number(*log_, deleted_runs));
  if (!epoch_.starts_with(epoch + "-")) {
    series_ = std::make_unique<SeriesStore>(*log_);
    known_.clear();
  }
  const std::set<int64_t> with_new_metrics = series_->sync();
  epoch_ = epoch + "-" + std::to_string(series_->shortened());
  bool all = known_.empty();
  std::string condition;
  size_t changed = 0;
  log_->each_row(run_states, {}, [&](const Statement& row) {
    const int64_t run = row.integer(0);
    std::string state = row.text(1);
    KnownRun& known = known_[run];
    if (!all && known.state == state && !with_new_metrics.contains(run)) return;
    known.state = std::move(state);
    condition += (condition.empty() ? "" : ", ") + std::to_string(run);
    ++changed;
  });
  if (condition.empty()) return;
  all = all || changed > max_new_runs;
  ++version_;
  std::vector<std::string> columns;
  log_->each_row("SELECT * FROM v_runs" + (all ? "" : " WHERE id IN (" + condition + ")"), {},
                 [&](const Statement& at) {
                   if (columns.empty()) columns = column_names(at);
                   const OrderedJson row = object_of(columns, read_row(at));
                   std::string text = dumped(row);
                   KnownRun& known = known_[row["id"].get<int64_t>()];
                   if (known.row && *known.row == text) return;
                   known.row = shared(std::move(text));
                   known.version = version_;
                 });
}

OrderedJson PageData::cursors() const {
  return {{"epoch", epoch_},
          {"version", version_},
          {"cursor", series_->cursor()},
          {"event_cursor", only_number(*log_, newest_event)}};
}

OrderedJson PageData::metric_names() const {
  OrderedJson names = OrderedJson::array();
  log_->each_row("SELECT name FROM metric_names ORDER BY name", {},
                 [&](const Statement& row) { names.push_back(row.text(0)); });
  return names;
}

OrderedJson PageData::log_and_cursors() const {
  OrderedJson answer = cursors();
  answer["database"] = path_.string();
  answer["names"] = metric_names();
  return answer;
}

std::vector<SharedText> PageData::runs_text() {
  static const SharedText comma = shared(","), end = shared("]}");
  const std::lock_guard lock(mutex_);
  read_runs();
  std::string begin = dumped(log_and_cursors());
  begin.replace(begin.size() - 1, 1, ",\"runs\":[");
  std::vector<SharedText> parts{shared(std::move(begin))};
  for (auto run = known_.rbegin(); run != known_.rend(); ++run) {
    if (!run->second.row) continue;
    if (parts.size() > 1) parts.push_back(comma);
    parts.push_back(run->second.row);
  }
  parts.push_back(end);
  return parts;
}

OrderedJson PageData::runs(const std::vector<int64_t>& only) {
  const std::lock_guard lock(mutex_);
  read_runs();
  OrderedJson answer = log_and_cursors();
  answer["runs"] = OrderedJson::array();
  for (auto run = known_.rbegin(); run != known_.rend(); ++run)
    if (run->second.row && std::find(only.begin(), only.end(), run->first) != only.end())
      answer["runs"].push_back(OrderedJson::parse(*run->second.row));
  return answer;
}

OrderedJson PageData::curves(const CurvesRequest& request) {
  const std::lock_guard lock(mutex_);
  read_runs();
  const Window window = x_window(*series_, request);
  OrderedJson answer = cursors();
  answer["curves"] = OrderedJson::array();
  for (const std::string& name : request.names) {
    std::vector<std::pair<int64_t, DrawnSeries>> curves;
    std::vector<std::span<const double>> steps;
    for (const int64_t run : request.runs) {
      DrawnSeries drawn(*series_, run, name, request.axis);
      if (drawn.series.step.empty() || std::isnan(drawn.x().front())) continue;
      steps.push_back(steps_within(drawn, window));
      curves.emplace_back(run, std::move(drawn));
    }
    const std::vector<double> shared = shared_steps(steps, request.cells);
    for (const auto& [run, drawn] : curves) {
      OrderedJson curve{{"run", run}, {"name", name}};
      curve.update(curve_json(drawn, request, window, shared));
      answer["curves"].push_back(std::move(curve));
    }
  }
  return answer;
}

OrderedJson PageData::refresh(const RefreshRequest& request) {
  const std::lock_guard lock(mutex_);
  read_runs();
  if (request.epoch != epoch_ || request.version > version_) return {{"reset", true}};
  OrderedJson answer = cursors();
  answer["names"] = metric_names();
  answer["runs"] = OrderedJson::array();
  for (auto run = known_.rbegin(); run != known_.rend(); ++run) {
    if (!run->second.row || run->second.version <= request.version) continue;
    if (answer["runs"].size() == max_new_runs) return {{"reset", true}};
    answer["runs"].push_back(OrderedJson::parse(*run->second.row));
  }
  answer["new"] = OrderedJson::array();
  for (const int64_t run : request.shown.runs) {
    for (const std::string& name : request.shown.names) {
      const DrawnSeries drawn(*series_, run, name, Axis::step);
      if (drawn.series.newest <= request.cursor) continue;
      std::optional<OrderedJson> points = new_points(drawn, request.shown.smoothing, request.cursor);
      if (!points) return {{"reset", true}};
      OrderedJson curve{{"run", run}, {"name", name}};
      curve.update(*points);
      answer["new"].push_back(std::move(curve));
    }
  }
  answer["events"] = events_after(request.event_cursor, request.shown.runs);
  return answer;
}

SharedText PageData::configs() {
  const std::lock_guard lock(mutex_);
  read_runs();
  const int64_t newest = known_.empty() ? 0 : known_.rbegin()->first;
  if (configs_version_ == std::pair(epoch_, newest)) return configs_;
  configs_version_ = {epoch_, newest};
  return configs_ = shared(configs_text(*log_, known_.size()));
}

OrderedJson PageData::run(int64_t run) {
  const auto lock = locked();
  OrderedJson rows = objects_of(log_->query(one_run, {run}));
  if (rows.empty()) throw Error(ExitStatus::usage, "no run " + std::to_string(run) + " in the log");
  OrderedJson answer = std::move(rows[0]);
  answer["params"] = OrderedJson::object();
  log_->each_row(all_params, {run}, [&](const Statement& row) { answer["params"][row.text(0)] = row.text(1); });
  answer["metrics"] = objects_of(metrics_of_run(*log_, run));
  answer["segment_rows"] = objects_of(log_->query(run_segments_sql, {run}));
  answer["checkpoints"] = objects_of(log_->query(run_checkpoints_sql, {run}));
  answer["generations"] = objects_of(log_->query(run_generations_sql, {run}));
  answer["evaluations"] = objects_of(log_->query(run_evaluations_sql, {run}));
  answer["answers"] = objects_of(log_->query(run_answers_sql, {run}));
  answer["text_losses"] = objects_of(log_->query(run_text_losses_sql, {run}));
  answer["rank_times"] = objects_of(rank_time_table(*log_, run));
  const auto slowest = slowest_rank(*log_, run);
  answer["slowest"] = slowest ? OrderedJson(slowest_rank_text(*slowest)) : OrderedJson();
  return answer;
}

OrderedJson PageData::params(const std::vector<int64_t>& runs) {
  const auto lock = locked();
  const Table table = runs.size() == 1 ? log_->query(all_params, {runs[0]}) : differing_params(*log_, runs);
  OrderedJson rows = OrderedJson::array();
  for (const auto& row : table.rows)
    rows.push_back({{"key", row[0]}, {"values", std::vector<Json>(row.begin() + 1, row.end())}});
  return {{"runs", runs}, {"rows", rows}};
}

OrderedJson PageData::memory(int64_t run) {
  const auto lock = locked();
  const Table table = log_->query(memory_rows, {run});
  return {{"run", run}, {"columns", table.columns}, {"rows", table.rows}};
}

OrderedJson PageData::events_after(int64_t row, const std::vector<int64_t>& runs) const {
  OrderedJson events = OrderedJson::array();
  if (only_number(*log_, newest_event) <= row) return events;
  for (const int64_t run : runs) {
    const Table table = log_->query(newest_events, {run, row});
    for (const Row& cells : table.rows) {
      OrderedJson& event = events.emplace_back();
      for (size_t i = 0; i < cells.size(); ++i) event[table.columns[i]] = cells[i];
    }
  }
  return events;
}

OrderedJson PageData::events(const std::vector<int64_t>& runs) {
  const auto lock = locked();
  return events_after(0, runs);
}

OrderedJson PageData::studies() {
  const auto lock = locked();
  return {{"studies", objects_of(log_->query(study_reports))}};
}

OrderedJson PageData::sampled(int64_t run) {
  const auto lock = locked();
  OrderedJson sampled{{"run", run}};
  for (const std::string column : {"step", "sequence", "head"}) {
    OrderedJson& values = sampled[column + "s"] = OrderedJson::array();
    log_->each_row("SELECT DISTINCT s." + column +
                       " FROM v_lineage AS l JOIN samples AS s ON s.run_id = l.segment AND s.step < l.before_step "
                       "WHERE l.run_id = ?1 ORDER BY 1",
                   {run}, [&](const Statement& row) { values.push_back(row.integer(0)); });
  }
  return sampled;
}

OrderedJson PageData::tokens(int64_t run, int64_t step, int64_t sequence) {
  const auto lock = locked();
  const Table table = log_->query(token_rows, {run, step, sequence});
  OrderedJson columns;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    OrderedJson& values = columns[table.columns[i]] = OrderedJson::array();
    for (const Row& cells : table.rows) values.push_back(cell_json(cells[i]));
  }
  return {{"run", run}, {"step", step}, {"sequence", sequence}, {"columns", columns}};
}

}  // namespace wmtp
