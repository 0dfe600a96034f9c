#include "export/run_export_reader.hpp"

#include "base/sha256.hpp"
#include "log/records.hpp"

namespace wmtp {
namespace {

/// For any number of rows.
void each(const LogReader& log, const std::string& sql, const std::vector<SqlValue>& arguments,
          const std::function<void(const Statement&)>& on_row) {
  log.each_row(sql, arguments, on_row, LogReader::unlimited);
}

}  // namespace

std::string tracked_run_id(const std::filesystem::path& database, int64_t run_id, const std::string& started_at) {
  std::error_code ignored;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(database, ignored);
  return sha256_hex(canonical.string() + "\n" + std::to_string(run_id) + "\n" + started_at).substr(0, 32);
}

RunExportReader::RunExportReader(const LogReader& log, int64_t run_id) : log_(log), id_(run_id) {
  const Table run = log.query(
      "SELECT *, 1000000000 * CAST(strftime('%s', started_at) AS INTEGER) AS started_ns, "
      "1000000000 * CAST(strftime('%s', ended_at) AS INTEGER) AS ended_ns FROM v_runs WHERE id = ?1",
      {id_});
  for (size_t i = 0; i < run.columns.size(); ++i) row_[run.columns[i]] = run.rows.at(0)[i];
  started_ns_ = row_["started_ns"].get<int64_t>();
  if (!row_["ended_ns"].is_null()) ended_ns_ = row_["ended_ns"].get<int64_t>();
}

std::string RunExportReader::text(const std::string& name) const {
  const Json& cell = column(name);
  return cell.is_null() ? "" : cell.is_string() ? cell.get<std::string>() : cell.dump();
}

std::string RunExportReader::resolved_toml() const {
  return log_.query("SELECT resolved_toml FROM runs WHERE id = ?1", {id_}).rows.at(0)[0].get<std::string>();
}

std::vector<LoggedOption> RunExportReader::options() const {
  std::vector<LoggedOption> options;
  each(log_, "SELECT key, value_text, value_num FROM run_params WHERE run_id = ?1 ORDER BY key", {id_},
       [&](const Statement& row) {
         options.push_back({row.text(0), row.text(1), row.null(2) ? std::nullopt : std::optional(row.real(2))});
       });
  return options;
}

std::vector<RunStart::Plugin> RunExportReader::plugins() const {
  std::vector<RunStart::Plugin> plugins;
  each(log_, "SELECT kind, name, version, sha256, path FROM run_plugins WHERE run_id = ?1 ORDER BY kind, name", {id_},
       [&](const Statement& row) {
         plugins.push_back({row.text(0), row.text(1), row.text(2), row.text(3), row.text(4)});
       });
  return plugins;
}

std::vector<std::string> RunExportReader::metric_names() const {
  std::vector<std::string> names;
  each(log_,
       "SELECT name FROM metric_names AS n WHERE EXISTS (SELECT 1 FROM v_lineage AS l JOIN metric_values AS v "
       "ON v.run_id = l.segment AND v.step < l.before_step WHERE l.run_id = ?1 AND v.name_id = n.id) ORDER BY name",
       {id_}, [&](const Statement& row) { names.push_back(row.text(0)); });
  return names;
}

void RunExportReader::each_point(const std::string& metric,
                                 const std::function<void(const LoggedPoint&)>& on_point) const {
  each(log_, "SELECT step, value, kind, time_ns, segment FROM v_curves WHERE run_id = ?1 AND name = ?2 ORDER BY step",
       {id_, metric}, [&](const Statement& row) {
         on_point({row.integer(0), logged_number(row, 1, 2), row.integer(3), row.integer(4)});
       });
}

void RunExportReader::each_memory(const std::function<void(const LoggedMemory&)>& on_memory) const {
  each(log_,
       "SELECT m.rank, m.step, m.category, max(m.bytes), "
       "(SELECT time_ns FROM metric_values AS v WHERE v.run_id = m.run_id AND v.step <= m.step "
       "AND v.name_id = (SELECT id FROM metric_names WHERE name = 'train/loss') ORDER BY v.step DESC LIMIT 1) "
       "FROM v_lineage AS l JOIN memory AS m ON m.run_id = l.segment AND m.step < l.before_step "
       "WHERE l.run_id = ?1 AND m.phase = 'peak' "
       "AND m.category IN ('allocated', 'resident') GROUP BY m.rank, m.category, m.step",
       {id_}, [&](const Statement& row) {
         on_memory(
             {row.integer(0), row.integer(1), row.text(2), row.integer(3), row.null(4) ? started_ns_ : row.integer(4)});
       });
}

}  // namespace wmtp
