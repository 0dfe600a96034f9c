// Queries of the log: predefined ones, and SQL from users.
#include <optional>

#include "io/run_lock.hpp"
#include "log/migrations.hpp"
#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

class LogReaderTest : public LogTest {
 protected:
  void run(const std::string& name, const std::string& hash, ExitStatus status, int64_t parent = 0) {
    RunStart begin = start(name);
    begin.config_hash = hash;
    begin.parent_run = parent;
    RunLog(file_, begin).end(status);
  }

  std::string refused(const std::string& sql) const {
    return refusal(ExitStatus::usage, [&] { LogReader(file_).run_user_query(sql, 1000); });
  }
};

TEST_F(LogReaderTest, ReadsAMissingFileAsAnEmptyLog) {
  LogReader reader(file_);
  EXPECT_TRUE(reader.query("SELECT * FROM v_runs", {}, 10).rows.empty());
  EXPECT_TRUE(reader.finished_with_hash("c0ffee").empty());
  EXPECT_FALSE(reader.newest_finished("tiny"));
  EXPECT_FALSE(std::filesystem::exists(file_)) << "reading must not make a file";
}

TEST_F(LogReaderTest, ReadsAFileThatIsJustBeingCreatedAsAnEmptyLog) {
  std::ofstream{file_};
  EXPECT_TRUE(LogReader(file_).query("SELECT * FROM runs", {}, 10).rows.empty());
}

TEST_F(LogReaderTest, TakesARunWithoutAHeartbeatForRunningWhileItsFolderIsLocked) {
  RunLog log(file_, start());
  std::optional<RunLock> lock(std::in_place, log.run_folder());
  EXPECT_EQ(LogReader(file_).live_status(1), "running");
  execute("UPDATE runs SET heartbeat_at = '2020-01-01T00:00:00Z'");
  EXPECT_EQ(text("SELECT status FROM v_runs"), "lost");
  EXPECT_EQ(LogReader(file_).live_status(1), "running");
  lock.reset();
  EXPECT_EQ(LogReader(file_).live_status(1), "lost");
  log.end(ExitStatus::done);
  EXPECT_EQ(LogReader(file_).live_status(1), "finished");
}

TEST_F(LogReaderTest, FindsFinishedRunsNewestFirst) {
  run("a", "h1", ExitStatus::done);
  run("a", "h1", ExitStatus::guard);
  run("a", "h2", ExitStatus::done);
  run("b", "h1", ExitStatus::done);
  LogReader reader(file_);
  const auto found = reader.finished_with_hash("h1");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].id, 4);
  EXPECT_EQ(found[0].folder, folder_ / "4-b");
  EXPECT_EQ(found[1].id, 1);
  EXPECT_EQ(reader.newest_finished("a")->id, 3);
  EXPECT_FALSE(reader.newest_finished("c"));
}

TEST_F(LogReaderTest, FindsUnfinishedRunsNewestFirst) {
  run("a", "h", ExitStatus::interrupted);
  run("a", "h", ExitStatus::guard);
  run("a", "other", ExitStatus::interrupted);
  const auto unfinished = LogReader(file_).unfinished_with_hash("h");
  ASSERT_EQ(unfinished.size(), 2u);
  EXPECT_EQ(unfinished[0].id, 2);
  EXPECT_EQ(unfinished[0].folder, folder_ / "2-a");
  EXPECT_EQ(unfinished[1].id, 1);
}

TEST_F(LogReaderTest, CountsRunsThatAFinishedOneResumedAsFinished) {
  run("a", "h", ExitStatus::interrupted);
  run("a", "h", ExitStatus::peer, 1);
  EXPECT_EQ(LogReader(file_).unfinished_with_hash("h").size(), 2u);
  RunStart begin = start("a");
  begin.config_hash = "h";
  begin.parent_run = 2;
  RunLog live(file_, begin);
  EXPECT_EQ(LogReader(file_).unfinished_with_hash("h").front().id, 3) << "it is active, as its lock shows";
  live.end(ExitStatus::done);
  EXPECT_TRUE(LogReader(file_).unfinished_with_hash("h").empty());
}

TEST_F(LogReaderTest, FindsARunByIdAndByName) {
  run("code", "h", ExitStatus::done);
  run("code", "h", ExitStatus::done);
  run("7", "h", ExitStatus::done);
  LogReader reader(file_);
  EXPECT_EQ(reader.resolve_run("1"), 1);
  EXPECT_EQ(reader.resolve_run("code"), 2);
  EXPECT_EQ(reader.resolve_run("7"), 3) << "a name of digits, as there is no run 7";
  const std::string text = refusal(ExitStatus::usage, [&] { reader.resolve_run("code1"); });
  EXPECT_TRUE(holds(text, "did you mean \"code\"") && holds(text, "runs list")) << text;
}

TEST_F(LogReaderTest, ReturnsTypedCellsAndUniqueColumns) {
  run("a", "h", ExitStatus::done);
  const Table table = LogReader(file_).query(
      "SELECT id, id, 1.5, 'text', NULL, x'0aff', 9e999 AS big FROM runs WHERE name = ?1 AND id = ?2", {"a", "1"}, 10);
  EXPECT_EQ(table.columns, (std::vector<std::string>{"id", "id:1", "1.5", "'text'", "NULL", "x'0aff'", "big"}));
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0][0], 1);
  EXPECT_EQ(table.rows[0][2], 1.5);
  EXPECT_EQ(table.rows[0][3], "text");
  EXPECT_TRUE(table.rows[0][4].is_null());
  EXPECT_EQ(table.rows[0][5], "x'0aff'");
  EXPECT_FALSE(table.capped);
}

TEST_F(LogReaderTest, LimitsTheRowsAndReportsIt) {
  const std::string sql =
      "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n";
  EXPECT_TRUE(LogReader(file_).query(sql, {}, 2).capped);
  EXPECT_EQ(LogReader(file_).query(sql, {}, 2).rows.size(), 2u);
  EXPECT_FALSE(LogReader(file_).query(sql, {}, 3).capped);
}

TEST_F(LogReaderTest, RefusesEveryStatementThatIsNotAQuery) {
  run("a", "h", ExitStatus::done);
  EXPECT_TRUE(holds(refused("DELETE FROM runs"), "would write to runs"));
  EXPECT_TRUE(holds(refused("UPDATE runs SET name = 'b'"), "would write"));
  EXPECT_TRUE(holds(refused("INSERT INTO metric_names (name) VALUES ('x')"), "would write"));
  refused("DROP TABLE runs");
  refused("CREATE TABLE x (a)");
  refused("CREATE TEMP TABLE x (a)");
  EXPECT_TRUE(holds(refused("ATTACH '/tmp/other.db' AS other"), "attach"));
  refused("VACUUM INTO '/tmp/other.db'");
  refused("BEGIN");
  refused("PRAGMA journal_mode = DELETE");
  refused("PRAGMA user_version = 5");
  refused("PRAGMA wal_checkpoint");
  refused("PRAGMA writable_schema = 1");
  refused("SELECT load_extension('x')");
  EXPECT_TRUE(holds(refused("SELECT 1; DELETE FROM runs"), "more than one statement"));
  EXPECT_TRUE(holds(refused("SELECT 1; SELECT 2"), "more than one statement"));
  EXPECT_TRUE(holds(refused("  -- nothing"), "no statement"));
  EXPECT_EQ(integer("SELECT count(*) FROM runs WHERE name = 'a'"), 1);
}

TEST_F(LogReaderTest, AllowsReadOnlyPragmas) {
  run("a", "h", ExitStatus::done);
  LogReader reader(file_);
  EXPECT_EQ(reader.query("PRAGMA user_version", {}, 10).rows[0][0], newest_schema_version());
  EXPECT_GT(reader.query("PRAGMA table_info(runs)", {}, 100).rows.size(), 10u);
  EXPECT_EQ(reader.query("SELECT count(*) FROM runs;  -- all of them\n", {}, 10).rows[0][0], 1);
  EXPECT_FALSE(reader.query("EXPLAIN QUERY PLAN SELECT * FROM metrics WHERE run_id = 1", {}, 100).rows.empty());
}

TEST_F(LogReaderTest, NamesWhatIsWrongWithAStatement) {
  EXPECT_TRUE(holds(refused("SELEC 1"), "syntax error"));
  EXPECT_TRUE(holds(refused("SELECT x FROM runs"), "no such column: x"));
  EXPECT_TRUE(holds(refused("SELECT 1 FROM metric"), "no such table: metric"));
  EXPECT_TRUE(holds(refused("SELECT ?1"), "1 parameters, 0 values"));
}

TEST_F(LogReaderTest, StopsAStatementThatTakesTooLong) {
  const std::string forever = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n";
  LogReader reader(file_, std::chrono::milliseconds(200));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(holds(refusal(ExitStatus::usage, [&] { reader.run_user_query(forever, 10); }), "stopped after"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(reader.run_user_query("SELECT 1", 10).rows.size(), 1u) << "the next question has its own time";
}

TEST_F(LogReaderTest, StopsItsOwnQueriesToo) {
  {
    Database made(file_, Database::Mode::create);
    made.execute(
        "PRAGMA application_id = 2003661936; PRAGMA user_version = " + std::to_string(newest_schema_version()) +
        "; CREATE VIEW runs AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS id, 'tiny' AS name, zeroblob(900000000) AS config_hash FROM n");
  }
  LogReader reader(file_, std::chrono::milliseconds(100));
  const std::string sql = "SELECT sum(id) FROM runs";
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& run_user_query :
       {std::function<void()>([&] { reader.resolve_run("absent"); }),
        std::function<void()>([&] { reader.query(sql, {}, 10); }),
        std::function<void()>([&] { reader.each_row(sql, {}, [](const Statement&) {}); })}) {
    EXPECT_TRUE(holds(refusal(ExitStatus::storage, run_user_query), "took too long"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  const std::string text = refusal(ExitStatus::storage, [&] { reader.query("SELECT config_hash FROM runs", {}, 1); });
  EXPECT_TRUE(holds(text, "too big")) << text;
}

TEST_F(LogReaderTest, RefusesResultsThatWouldFillTheMemory) {
  EXPECT_TRUE(holds(refused("SELECT zeroblob(900000000)"), "longer than 32 MiB"));
  EXPECT_TRUE(holds(refused("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                            "SELECT printf('%.*c', 8000000, 'x') FROM n"),
                    "larger than 256.0 MiB"));
}

TEST_F(LogReaderTest, SupportsJsonFunctions) {
  const LogReader reader(file_);
  EXPECT_EQ(reader.run_user_query("SELECT sum(value) FROM json_each('[1, 2, 4]')", 10).rows[0][0], 7);
  EXPECT_EQ(reader.run_user_query("SELECT count(*) FROM json_tree('{\"a\": [1, 2]}')", 10).rows[0][0], 4);
}

TEST_F(LogReaderTest, ReadsWhileARunIsWritten) {
  RunLog log(file_, start());
  LogReader reader(file_);
  for (int64_t step = 1; step <= 50; ++step) {
    log.metrics(step, {{"train/loss", 1.0}});
    reader.query("SELECT * FROM v_runs", {}, 10);
    usleep(5000);
  }
  EXPECT_TRUE(eventually([&] { return reader.query("SELECT 1 FROM metrics", {}, 100).rows.size() == 50; }));
  EXPECT_FALSE(log.incomplete());
}

TEST_F(LogReaderTest, RefusesAFolderAndADevice) {
  EXPECT_TRUE(holds(refusal(ExitStatus::storage, [&] { LogReader reader(folder_); }), "is a folder"));
  EXPECT_TRUE(holds(refusal(ExitStatus::storage, [&] { LogReader reader("/dev/zero"); }), "is a device"));
}

}  // namespace
}  // namespace wmtp
