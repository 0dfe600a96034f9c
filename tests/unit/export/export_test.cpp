// Exports of a real log, read back without their target programs, which tests/e2e/export_test.py uses.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "base/error.hpp"
#include "base/json.hpp"
#include "export/mlflow.hpp"
#include "export/run_export_reader.hpp"
#include "export/tables.hpp"
#include "export/tensorboard.hpp"
#include "io/durable_file.hpp"
#include "log/database.hpp"
#include "log/run_log.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

class ExportTest : public testing::Test {
 protected:
  ExportTest() {
    std::string pattern = testing::TempDir() + "export-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    log_ = folder_ / "wmtp.db";
  }
  ~ExportTest() override { fs::remove_all(folder_); }

  RunStart start(const std::string& name = "tiny") const {
    RunStart start;
    start.name = name;
    start.pipeline = start.adapter = start.strategy = start.precision = start.version = "x";
    start.device = "cpu";
    start.config_hash = "c0ffee";
    start.params = {{"pipeline.keep", 0.6}, {"model.dim", int64_t{64}}, {"data.note", std::string(9000, 'n')}};
    start.plugins = {{"pipeline", "rho1", "1.0", "0123", "/p/rho1.so"}};
    return start;
  }

  void run(const std::string& name = "tiny", const SinkMaker& sink = {}) const {
    RunLog log(log_, start(name), sink);
    const double infinity = std::numeric_limits<double>::infinity();
    log.metrics(1, {{"train/loss", 0.1}, {"train/grad_norm", std::nan("")}});
    log.metrics(2, {{"train/loss", 1e-300}, {"train/grad_norm", infinity}});
    log.metrics(3, {{"train/loss", -infinity}, {"train/grad_norm", 2.0}});
    log.memory({{0, 3, "peak", "resident", 5'000'000}, {0, 3, "peak", "allocated", 3'000'000}});
    log.event(0, "warning", "odd", 2, "an event with a \"quote\" and \xff");
    log.end(ExitStatus::done);
  }

  std::string csv(const std::vector<int64_t>& runs) const {
    std::string text;
    write_metrics_csv(LogReader(log_), runs, [&](std::string_view more) { text += more; });
    return text;
  }

  fs::path folder_, log_;
};

TEST_F(ExportTest, CsvHasEveryNumberWithAllDigits) {
  run("a, \"b\"");
  const std::string text = csv({1});
  EXPECT_EQ(text.substr(0, text.find("\r\n")), "run_id,run,step,name,value,kind,time_ns,segment");
  for (const char* line :
       {"1,\"a, \"\"b\"\"\",1,train/loss,0.1,,", "1,\"a, \"\"b\"\"\",2,train/loss,1e-300,,",
        "1,\"a, \"\"b\"\"\",3,train/loss,-inf,-inf,", "1,\"a, \"\"b\"\"\",1,train/grad_norm,nan,nan,",
        "1,\"a, \"\"b\"\"\",2,train/grad_norm,inf,inf,"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

TEST_F(ExportTest, WideCsvHasARowForEachStepAndAColumnForEachMetric) {
  run();
  Database(log_, Database::Mode::write)
      .execute("UPDATE metric_values SET time_ns = 1500000000 * step + (name_id - 1) * 1000000");
  Database(log_, Database::Mode::write)
      .execute(
          "INSERT INTO metric_values VALUES (1, (SELECT id FROM metric_names WHERE name = 'train/loss'), 4, 0.5, "
          "NULL, 9000000000)");
  std::string text;
  write_wide_csv(LogReader(log_), 1, [&](std::string_view more) { text += more; });
  EXPECT_EQ(text,
            "step,timestamp,train/grad_norm,train/loss\r\n"
            "1,1970-01-01T00:00:01.500Z,nan,0.1\r\n"
            "2,1970-01-01T00:00:03.000Z,inf,1e-300\r\n"
            "3,1970-01-01T00:00:04.500Z,2,-inf\r\n"
            "4,1970-01-01T00:00:09.000Z,,0.5\r\n");
}

TEST_F(ExportTest, JsonHasTheRowAndEveryTable) {
  run();
  run("second");
  std::string text;
  write_runs_json(LogReader(log_), {2, 1}, [&](std::string_view more) { text += more; });
  const auto runs = Json::parse(text);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]["name"], "second");
  EXPECT_EQ(runs[1]["status"], "finished");
  for (const char* table :
       {"params", "plugins", "metrics", "memory", "checkpoints", "events", "evaluations", "text_losses", "samples"}) {
    EXPECT_TRUE(runs[1][table].is_array()) << table;
  }
  EXPECT_EQ(runs[1]["metrics"].size(), 6u);
  EXPECT_EQ(runs[1]["metrics"][0]["kind"], "nan");
  EXPECT_TRUE(runs[1]["metrics"][0]["value"].is_null());
  EXPECT_EQ(runs[1]["memory"].size(), 2u);
}

TEST_F(ExportTest, JsonOfAResumedRunHasTheRowsOfAllItsSegments) {
  const auto segment = [&](int64_t first, int64_t parent) {
    RunStart begun = start();
    begun.parent_run = parent;
    RunLog log(log_, begun);
    for (int64_t step = first; step < first + 3; ++step) {
      log.metrics(step, {{"train/loss", 1}, {"train/tokens", double(step)}});
      log.samples(step, {SampleRecord()});
      log.generations(step, {{1, "prompt", "text of " + std::to_string(parent)}});
    }
    log.memory({{0, first + 2, "peak", "resident", 5'000'000}});
    log.rank_times({{0, first + 2, "forward", 1.5}});
    log.checkpoint(first + 1, "/c", 10, "kept");
    log.event(0, "info", "odd", first, "");
    log.end(ExitStatus::interrupted);
  };
  segment(1, 0);
  segment(3, 1);  // the first one's step 3 is trained again
  std::string text;
  write_runs_json(LogReader(log_), {2}, [&](std::string_view more) { text += more; });
  const Json run = Json::parse(text)[0];
  const auto column = [&](const char* table, const char* name) {
    std::vector<int64_t> values;
    for (const Json& row : run[table]) values.push_back(row[name]);
    return values;
  };
  for (const char* table : {"memory", "rank_times", "checkpoints", "events"})
    EXPECT_EQ(column(table, "segment"), (std::vector<int64_t>{1, 2})) << table;
  for (const char* table : {"samples", "generations"})
    EXPECT_EQ(column(table, "step"), (std::vector<int64_t>{1, 2, 3, 4, 5})) << table;
  EXPECT_EQ(run["generations"][2]["text"], "text of 1");
}

TEST_F(ExportTest, MlflowFileHasNoViewsAndReportsTruncatedTexts) {
  run();
  const fs::path file = folder_ / "out/mlflow.db";
  const auto cuts = export_mlflow(LogReader(log_), {1}, file);
  EXPECT_EQ(cuts, std::vector<std::string>{"run 1: parameter data.note"});
  Database database(file, Database::Mode::read);
  EXPECT_EQ(database.integer("SELECT count(*) FROM sqlite_schema WHERE type IN ('view', 'trigger')"), 0);
  EXPECT_EQ(database.integer("SELECT count(*) FROM sqlite_schema WHERE type = 'table'"), 16);
  EXPECT_EQ(database.integer("SELECT length(value) FROM params WHERE key = 'data.note'"), 8000);
  EXPECT_EQ(database.integer("SELECT is_nan FROM metrics WHERE key = 'train/grad_norm' AND step = 1"), 1);
  EXPECT_EQ(database.integer("SELECT value > 1e308 FROM metrics WHERE key = 'train/grad_norm' AND step = 2"), 1);
  EXPECT_EQ(database.integer("SELECT step FROM latest_metrics WHERE key = 'train/loss'"), 3);
  EXPECT_EQ(database.integer("SELECT count(*) FROM latest_metrics NATURAL JOIN metrics"),
            database.integer("SELECT count(DISTINCT key) FROM metrics"));
  EXPECT_EQ(database.text("SELECT value FROM metrics WHERE key = 'system/rank_0_memory_usage_megabytes'"), "5.0");
  EXPECT_EQ(database.integer("SELECT count(*) FROM metrics WHERE key LIKE 'system/gpu%'"), 0);
  EXPECT_EQ(database.text("PRAGMA foreign_key_check"), "");
}

TEST_F(ExportTest, RunIdsInOtherProgramsAreStable) {
  const std::string id = tracked_run_id("runs/wmtp.db", 3, "2026-01-01T00:00:00Z");
  EXPECT_EQ(id.size(), 32u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(id, tracked_run_id("runs/../runs/wmtp.db", 3, "2026-01-01T00:00:00Z"));
  EXPECT_NE(id, tracked_run_id("runs/wmtp.db", 4, "2026-01-01T00:00:00Z"));
  EXPECT_NE(id, tracked_run_id("runs/other.db", 3, "2026-01-01T00:00:00Z"));
}

TEST_F(ExportTest, LeavesExistingFilesUnchanged) {
  run();
  const LogReader log(log_);
  const fs::path file = folder_ / "taken";
  std::ofstream(file) << "mine";
  EXPECT_THROW(export_mlflow(log, {1}, file), Error);
  EXPECT_THROW(OutputFile{file}, Error);
  EXPECT_THROW(OutputFile{folder_}, Error);
  EXPECT_THROW(export_tensorboard(log, {1}, folder_), Error);
  EXPECT_EQ(fs::file_size(file), 4u);
  for (const auto& one : fs::directory_iterator(folder_))
    EXPECT_EQ(one.path().string().find(".tmp-"), std::string::npos) << one.path();
}

/// One event file in a run's folder.
fs::path event_file_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& one : fs::directory_iterator(folder)) files.push_back(one.path());
  EXPECT_EQ(files.size(), 1u);
  return files.at(0);
}

TEST_F(ExportTest, TensorBoardHasAFolderForEachRun) {
  run();
  run("second");
  export_tensorboard(LogReader(log_), {1, 2}, folder_ / "board");
  EXPECT_GT(fs::file_size(event_file_in(folder_ / "board/1-tiny")), 500u);
  EXPECT_GT(fs::file_size(event_file_in(folder_ / "board/2-second")), 500u);
}

TEST_F(ExportTest, TheSinkWritesTheLogsRecords) {
  const auto sink = [&](int64_t id) { return tensorboard_sink(folder_ / "live", id, start()); };
  run("tiny", sink);
  const LogReader log(log_);
  EXPECT_EQ(log.query("SELECT * FROM events WHERE kind = 'sink_failed'", {}, 1).rows.size(), 0u);
  EXPECT_GT(fs::file_size(event_file_in(folder_ / "live/1-tiny")), 500u);
}

TEST_F(ExportTest, AFailingSinkBecomesAnEventAndTheLogContinues) {
  std::ofstream(folder_ / "live") << "no folder";
  const auto sink = [&](int64_t id) { return tensorboard_sink(folder_ / "live", id, start()); };
  run("tiny", sink);
  const LogReader log(log_);
  const Table events = log.query("SELECT level, message FROM events WHERE kind = 'sink_failed'", {}, 10);
  ASSERT_EQ(events.rows.size(), 1u);
  EXPECT_EQ(events.rows[0][0], "warning");
  EXPECT_NE(events.rows[0][1].get<std::string>().find("live"), std::string::npos);
  EXPECT_EQ(log.query("SELECT * FROM metrics", {}, 10).rows.size(), 6u);
  EXPECT_EQ(log.run(1).status, "finished");
}

}  // namespace
}  // namespace wmtp
