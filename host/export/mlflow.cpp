#include "export/mlflow.hpp"

#include <cmath>
#include <limits>
#include <map>

#include "base/embedded.hpp"
#include "base/normal_path.hpp"
#include "base/text.hpp"
#include "export/run_export_reader.hpp"
#include "io/durable_file.hpp"
#include "log/database.hpp"

namespace wmtp {
namespace {

constexpr Database::Kind mlflow_file{"MLflow file", "-o"};
constexpr int64_t experiment_id = 1;  // every MLflow has experiment 0, "Default"
constexpr size_t max_param_length = 8000, max_tag_length = 5000, max_name_length = 250;

int64_t milliseconds(int64_t time_ns) { return time_ns / 1'000'000; }

const char* mlflow_status(const std::string& status) {
  static const std::map<std::string, const char*> names{
      {"running", "RUNNING"}, {"finished", "FINISHED"}, {"interrupted", "KILLED"}};
  const auto found = names.find(status);
  return found == names.end() ? "FAILED" : found->second;  // failed, lost
}

class MlflowWriter {
 public:
  MlflowWriter(Database& database, const std::filesystem::path& target)
      : target_(target),
        run_(database,
             "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status, "
             "start_time, end_time, source_version, lifecycle_stage, artifact_uri, experiment_id) "
             "VALUES (?1, ?2, 'LOCAL', 'wmtp-host', '', '', ?3, ?4, ?5, ?6, 'active', ?7, ?8)"),
        param_(database, "INSERT INTO params (run_uuid, \"key\", value) VALUES (?1, ?2, ?3)"),
        tag_(database, "INSERT INTO tags (run_uuid, \"key\", value) VALUES (?1, ?2, ?3)"),
        metric_(database,
                "INSERT INTO metrics (run_uuid, \"key\", step, value, is_nan, timestamp) "
                "VALUES (?1, ?2, ?3, ?4, ?5, ?6)"),
        // SQLite takes the other columns from the row of the maximum; a step has one row for each key.
        latest_(database,
                "INSERT INTO latest_metrics (run_uuid, \"key\", step, value, is_nan, timestamp) "
                "SELECT run_uuid, \"key\", max(step), value, is_nan, timestamp FROM metrics WHERE run_uuid = ?1 "
                "GROUP BY \"key\"") {}

  void write(const RunExportReader& rows, const std::filesystem::path& log) {
    id_ = tracked_run_id(log, rows.column("id").get<int64_t>(), rows.text("started_at"));
    run_name_ = "run " + rows.text("id");
    const std::string name = truncate(rows.text("name"), max_name_length, "name");
    run_.run(id_, name, mlflow_status(rows.text("status")), milliseconds(rows.started_ns()),
             rows.ended_ns() > 0 ? std::optional(milliseconds(rows.ended_ns())) : std::nullopt, rows.text("git_commit"),
             target_ + "-artifacts/" + id_ + "/artifacts", experiment_id);
    for (const LoggedOption& option : rows.options())
      param_.run(id_, option.key, truncate(option.text, max_param_length, "parameter " + option.key));
    write_tags(rows, name);
    for (const std::string& metric : rows.metric_names())
      rows.each_point(metric, [&](const LoggedPoint& point) { write(metric, point); });
    write_memory(rows);
    latest_.run(id_);
  }

  const std::vector<std::string>& truncated() const { return truncated_; }

 private:
  void write(const std::string& key, const LoggedPoint& point) {
    const bool is_nan = std::isnan(point.value);
    const double largest = std::numeric_limits<double>::max();
    const double value = is_nan ? 0 : std::isinf(point.value) ? std::copysign(largest, point.value) : point.value;
    metric_.run(id_, key, point.step, value, int64_t{is_nan}, milliseconds(point.time_ns));
  }

  void write_memory(const RunExportReader& rows) {
    const bool on_gpu = rows.text("device") == "cuda";
    rows.each_memory([&](const LoggedMemory& memory) {
      const bool is_gpu = memory.category == "allocated";
      if (is_gpu && !on_gpu) return;  // included in the process's memory
      const std::string key = std::string("system/") + (is_gpu ? "gpu_" : "rank_") + std::to_string(memory.rank) +
                              "_memory_usage_megabytes";
      write(key, {memory.step, double(memory.bytes) / 1e6, memory.time_ns});
    });
  }

  void write_tags(const RunExportReader& rows, const std::string& name) {
    tag("mlflow.runName", name);
    tag("mlflow.source.name", "wmtp-host");
    tag("mlflow.source.type", "LOCAL");
    tag("mlflow.source.git.commit", rows.text("git_commit"));
    tag("wmtp.run_id", rows.text("id"));
    for (const char* column :
         {"pipeline", "adapter", "status", "exit_code", "config_hash", "seed", "world_size", "strategy", "precision",
          "device", "host", "version", "parent_run", "tokens_per_second", "mfu"}) {
      tag(std::string("wmtp.") + column, rows.text(column));
    }
    for (const RunStart::Plugin& plugin : rows.plugins())
      tag("wmtp.plugin." + plugin.kind + "." + plugin.name, plugin.version + " sha256:" + plugin.sha256);
    if (rows.text("log_incomplete") != "0") tag("wmtp.log_incomplete", "1");
  }

  void tag(const std::string& key, const std::string& value) {
    if (!value.empty()) tag_.run(id_, key, truncate(value, max_tag_length, "tag " + key));
  }

  /// MLflow counts characters.
  std::string truncate(const std::string& text, size_t longest, const std::string& what) {
    if (shown_length(text) > longest) truncated_.push_back(run_name_ + ": " + what);
    return truncate_text(text, longest);
  }

  std::string target_, id_, run_name_;
  std::vector<std::string> truncated_;
  Statement run_, param_, tag_, metric_, latest_;
};

void write_experiments(Database& database, const std::string& target, int64_t created_ms) {
  Statement experiment(
      database,
      "INSERT INTO experiments (experiment_id, name, artifact_location, lifecycle_stage, creation_time, "
      "last_update_time) VALUES (?1, ?2, ?3, 'active', ?4, ?4)");
  experiment.run(int64_t{0}, "Default", target + "-artifacts/0", created_ms);
  experiment.run(experiment_id, "wmtp-host", target + "-artifacts/" + std::to_string(experiment_id), created_ms);
}

}  // namespace

std::vector<std::string> export_mlflow(const LogReader& log, const std::vector<int64_t>& runs,
                                       const std::filesystem::path& file) {
  OutputFile draft(file);
  const std::string target = absolute_path(file).string();
  std::vector<std::string> truncated;
  {
    Database database(draft.path(), Database::Mode::create, mlflow_file);
    Transaction transaction(database);
    database.execute(embedded_sql().at("mlflow.sql"));
    MlflowWriter writer(database, target);
    for (const int64_t run : runs) {
      const RunExportReader rows(log, run);
      if (run == runs.front()) write_experiments(database, target, milliseconds(rows.started_ns()));
      writer.write(rows, log.database());
    }
    truncated = writer.truncated();
    transaction.commit();
  }
  draft.publish();
  return truncated;
}

}  // namespace wmtp
