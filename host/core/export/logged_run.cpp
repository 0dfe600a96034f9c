#include "core/export/logged_run.hpp"

#include <limits>

namespace wmtp {
namespace {

constexpr int64_t all = std::numeric_limits<int64_t>::max();

double number_of(const nlohmann::json& value, const nlohmann::json& kind) {
  if (kind.is_null()) return value.get<double>();
  const double infinity = std::numeric_limits<double>::infinity();
  return kind == "inf" ? infinity : kind == "-inf" ? -infinity : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

LoggedRunRows::LoggedRunRows(const LogReader& log, int64_t run_id) : log_(log), id_(std::to_string(run_id)) {
  const Table run = log.query(
      "SELECT *, 1000000000 * CAST(strftime('%s', started_at) AS INTEGER) AS started_ns, "
      "1000000000 * CAST(strftime('%s', ended_at) AS INTEGER) AS ended_ns FROM v_runs WHERE id = CAST(?1 AS INTEGER)",
      {id_}, 1);
  for (size_t i = 0; i < run.columns.size(); ++i) row_[run.columns[i]] = run.rows.at(0)[i];
  started_ns_ = row_["started_ns"].get<int64_t>();
  if (!row_["ended_ns"].is_null()) ended_ns_ = row_["ended_ns"].get<int64_t>();
}

std::string LoggedRunRows::text(const std::string& name) const {
  const nlohmann::json& cell = column(name);
  return cell.is_null() ? "" : cell.is_string() ? cell.get<std::string>() : cell.dump();
}

std::string LoggedRunRows::resolved_toml() const {
  return log_.query("SELECT resolved_toml FROM runs WHERE id = CAST(?1 AS INTEGER)", {id_}, 1)
      .rows.at(0)[0]
      .get<std::string>();
}

std::vector<LoggedOption> LoggedRunRows::options() const {
  std::vector<LoggedOption> options;
  log_.each_row("SELECT key, value_text, value_num FROM run_params WHERE run_id = CAST(?1 AS INTEGER) ORDER BY key",
                {id_}, [&](Row& row) {
                  options.push_back({row[0], row[1], std::nullopt});
                  if (!row[2].is_null()) options.back().number = row[2].get<double>();
                  return true;
                });
  return options;
}

std::vector<RunStart::Plugin> LoggedRunRows::plugins() const {
  std::vector<RunStart::Plugin> plugins;
  log_.each_row(
      "SELECT kind, name, version, sha256, path FROM run_plugins WHERE run_id = CAST(?1 AS INTEGER) "
      "ORDER BY kind, name",
      {id_}, [&](Row& row) {
        plugins.push_back({row[0], row[1], row[2], row[3], row[4]});
        return true;
      });
  return plugins;
}

std::vector<std::string> LoggedRunRows::metric_names() const {
  std::vector<std::string> names;
  const auto take = [&](Row& row) {
    names.push_back(row[0]);
    return true;
  };
  log_.each_row(
      "SELECT name FROM metric_names AS n WHERE EXISTS "
      "(SELECT 1 FROM metric_values WHERE run_id = CAST(?1 AS INTEGER) AND name_id = n.id) ORDER BY name",
      {id_}, take);
  return names;
}

void LoggedRunRows::each_point(const std::string& metric, const std::function<void(const LoggedPoint&)>& visit) const {
  log_.each_row(
      "SELECT step, value, kind, time_ns FROM metric_values WHERE run_id = CAST(?1 AS INTEGER) "
      "AND name_id = (SELECT id FROM metric_names WHERE name = ?2) ORDER BY step",
      {id_, metric}, [&](Row& row) {
        visit({row[0].get<int64_t>(), number_of(row[1], row[2]), row[3].get<int64_t>()});
        return true;
      });
}

void LoggedRunRows::each_memory(const std::function<void(const LoggedMemory&)>& visit) const {
  log_.each_row(
      "SELECT m.rank, m.step, m.category, max(m.bytes), "
      "(SELECT time_ns FROM metric_values AS v WHERE v.run_id = m.run_id AND v.step <= m.step "
      "AND v.name_id = (SELECT id FROM metric_names WHERE name = 'train/loss') ORDER BY v.step DESC LIMIT 1) "
      "FROM memory AS m WHERE m.run_id = CAST(?1 AS INTEGER) AND m.phase = 'peak' "
      "AND m.category IN ('allocated', 'resident') GROUP BY m.rank, m.category, m.step",
      {id_}, [&](Row& row) {
        visit({row[0].get<int64_t>(), row[1].get<int64_t>(), row[2].get<std::string>(), row[3].get<int64_t>(),
               row[4].is_null() ? started_ns_ : row[4].get<int64_t>()});
        return true;
      });
}

}  // namespace wmtp
