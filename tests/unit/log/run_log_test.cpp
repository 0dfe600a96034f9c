// The lifecycle of a run's row, and the queue of its records, on real databases.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>

#include "log/log_queue.hpp"
#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

using RunLogTest = LogTest;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

std::map<std::string, double> twenty_values(int64_t step) {
  std::map<std::string, double> values;
  for (int i = 0; i < 20; ++i) values["perf/some_measured_value_" + std::to_string(i)] = 0.001 * i + step;
  return values;
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

TEST_F(RunLogTest, InsertsARowAtTheStartAndClosesIt) {
  file_ = folder_ / "made" / "for it" / "wmtp.db";
  RunStart begin = start();
  begin.params = {{"pipeline.keep", 0.6},
                  {"pipeline.mode", std::string("signed")},
                  {"seed", int64_t{42}},
                  {"flag", true},
                  {"betas", std::vector<double>{0.9, 0.95}},
                  {"targets", std::vector<std::string>{"wq", "wv"}}};
  begin.plugins = {{"pipeline", "rho1", "1.0", "abc", "/plugins/rho1.so"}};
  RunLog log(file_, begin);
  EXPECT_EQ(text("SELECT status || ' ' || (ended_at IS NULL) || ' ' || (exit_code IS NULL) FROM runs"), "running 1 1");
  EXPECT_EQ(log.run_folder(), folder_ / "made" / "for it" / "1-tiny");
  EXPECT_TRUE(std::filesystem::is_directory(log.run_folder()));
  EXPECT_EQ(text("SELECT value_text || ' ' || value_num FROM run_params WHERE key = 'pipeline.keep'"), "0.6 0.6");
  EXPECT_EQ(text("SELECT value_text || ' ' || value_num FROM run_params WHERE key = 'flag'"), "true 1.0");
  EXPECT_EQ(text("SELECT value_text FROM run_params WHERE key = 'betas' AND value_num IS NULL"), "[0.9, 0.95]");
  EXPECT_EQ(text("SELECT value_text FROM run_params WHERE key = 'targets' AND value_num IS NULL"), "[\"wq\",\"wv\"]");
  EXPECT_EQ(integer("SELECT count(*) FROM run_plugins WHERE sha256 = 'abc'"), 1);
  log.end(ExitStatus::done);
  EXPECT_EQ(text("SELECT status || ' ' || exit_code || ' ' || log_incomplete FROM runs"), "finished 0 0");
  EXPECT_EQ(integer("SELECT ended_at >= started_at FROM runs"), 1);
}

TEST_F(RunLogTest, TakesTheNextIdIfAnotherLogUsesTheRunFolder) {
  RunLog first(file_, start());
  const auto other = file_.parent_path() / "other.db";
  {
    RunLog second(other, start()), third(other, start());
    EXPECT_EQ(second.run_id(), 2);
    EXPECT_EQ(second.run_folder().filename(), "2-tiny");
    EXPECT_EQ(third.run_id(), 3);
    second.end(ExitStatus::done);
    third.end(ExitStatus::done);
  }
  RunLog fourth(file_, start());
  EXPECT_EQ(fourth.run_id(), 4) << "its 2 and 3 are the other log's";
  fourth.end(ExitStatus::done);
  first.end(ExitStatus::done);
  EXPECT_EQ(text("SELECT group_concat(id || status) FROM (SELECT * FROM runs ORDER BY id)"), "1finished,4finished");
}

TEST_F(RunLogTest, RecordsFailedForEveryCodeButFinishedAndInterrupted) {
  for (ExitStatus status : {ExitStatus::interrupted, ExitStatus::guard, ExitStatus::peer})
    RunLog(file_, start()).end(status);
  EXPECT_EQ(text("SELECT group_concat(status || exit_code) FROM (SELECT * FROM runs ORDER BY id)"),
            "interrupted75,failed5,failed6");
}

TEST_F(RunLogTest, ClosesARunThatWasNotEndedAsABug) {
  { RunLog log(file_, start()); }
  EXPECT_EQ(text("SELECT status || ' ' || exit_code FROM runs"), "failed 70");
}

TEST_F(RunLogTest, WritesEveryKindOfRecord) {
  RunLog log(file_, start());
  log.metrics(1, {{"train/loss", 2.5}, {"train/lr", 1e-3}});
  log.memory({{1, 1, "peak", "resident", 4096}, {0, 1, "peak", "resident", 8192}});
  log.checkpoint(10, "/somewhere/step-000010", 100, "kept");
  log.checkpoint(20, "/somewhere/step-000020", 100, "kept");
  log.checkpoint(10, "/somewhere/step-000010", 100, "deleted");
  log.event(0, "warning", "spike", 7, "loss was 99");
  log.end(ExitStatus::done);
  EXPECT_EQ(text("SELECT value FROM metrics WHERE run_id = 1 AND step = 1 AND name = 'train/loss'"), "2.5");
  EXPECT_EQ(integer("SELECT bytes FROM v_memory_peak WHERE rank = 0 AND category = 'resident'"), 8192);
  EXPECT_EQ(text("SELECT group_concat(step || state) FROM checkpoints"), "10deleted,20kept");
  EXPECT_EQ(text("SELECT level || kind || step || message FROM events"), "warningspike7loss was 99");
  EXPECT_FALSE(log.incomplete());
}

TEST_F(RunLogTest, KeepsTheKindOfNonFiniteValues) {
  const double inf = std::numeric_limits<double>::infinity();
  RunLog log(file_, start());
  log.metrics(1, {{"a", std::nan("")}, {"b", inf}, {"c", -inf}, {"d", 1.0}});
  log.end(ExitStatus::done);
  EXPECT_EQ(text("SELECT group_concat(name || coalesce(value, 'NULL') || coalesce(kind, ''), ' ') "
                 "FROM (SELECT * FROM metrics ORDER BY name)"),
            "aNULLnan bNULLinf cNULL-inf d1.0");
}

TEST_F(RunLogTest, KeepsTheLaterOfTwoValuesForAStep) {
  RunLog log(file_, start());
  log.metrics(1, {{"valid/loss", 2.0}});
  log.metrics(1, {{"valid/loss", 1.0}});
  log.end(ExitStatus::done);
  EXPECT_EQ(text("SELECT group_concat(value) FROM metrics"), "1.0");
}

TEST_F(RunLogTest, RefusesAnUnknownCheckpointState) {
  RunLog log(file_, start());
  EXPECT_TRUE(holds(refusal(ExitStatus::bug, [&] { log.checkpoint(1, "x", 1, "lost"); }), "\"lost\""));
}

TEST_F(RunLogTest, NeverReusesAnId) {
  RunLog(file_, start()).end(ExitStatus::done);
  execute("DELETE FROM runs");
  RunLog second(file_, start());
  EXPECT_EQ(second.run_id(), 2);
}

TEST_F(RunLogTest, FollowsNoLinkAtTheRunFoldersPath) {
  std::filesystem::create_directory(folder_ / "theirs");
  std::filesystem::create_directory_symlink("theirs", folder_ / "1-tiny");
  std::filesystem::create_symlink("absent", folder_ / "2-tiny");
  EXPECT_EQ(RunLog(file_, start()).run_folder(), folder_ / "3-tiny");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "theirs"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "absent"));
}

TEST_F(RunLogTest, KeepsTheRunFolderInsideTheDatabasesFolder) {
  RunLog log(file_, start("../../up"));
  EXPECT_EQ(log.run_folder(), folder_ / "1-..-..-up");
}

TEST_F(RunLogTest, LeavesOneFileBehindWhenItEnds) {
  RunLog log(file_, start());
  log.metrics(1, {{"train/loss", 1.0}});
  EXPECT_TRUE(eventually([&] { return integer("SELECT count(*) FROM metrics") == 1; }));
  log.end(ExitStatus::done);
  EXPECT_EQ(std::filesystem::file_size(file_.string() + "-wal"), 0u);
}

TEST_F(RunLogTest, UsesLessThanSixtyBytesForAMetric) {
  {
    RunLog log(file_, start());
    for (int64_t step = 1; step <= 10'000; ++step) {
      log.metrics(step, twenty_values(step));
      if (step % 1000 == 0) usleep(300'000);
    }
    log.end(ExitStatus::done);
    EXPECT_FALSE(log.incomplete());
  }
  ASSERT_EQ(integer("SELECT count(*) FROM metrics"), 200'000);
  const double bytes = double(std::filesystem::file_size(file_)) / 200'000;
  printf("%.1f bytes a metric row, with its share of all else\n", bytes);
  EXPECT_LT(bytes, 60);
}

TEST_F(RunLogTest, CostsTheTrainingThreadMicroseconds) {
  RunLog log(file_, start());
  std::vector<double> times;
  for (int64_t step = 1; step <= 2000; ++step) {
    const auto values = twenty_values(step);
    const auto begin = Clock::now();
    log.metrics(step, values);
    times.push_back(milliseconds_since(begin));
    usleep(200);
  }
  std::sort(times.begin(), times.end());
  printf("metrics() with 20 values: median %.1f us, 99%% %.1f us\n", 1000 * times[1000], 1000 * times[1980]);
  EXPECT_LT(times[1000], 0.1);
  log.end(ExitStatus::done);
}

TEST_F(RunLogTest, WaitsForALockOfTenSecondsWithoutDelayingTheCaller) {
  RunLog log(file_, start());
  log.metrics(0, twenty_values(0));
  ASSERT_TRUE(eventually([&] { return integer("SELECT count(*) FROM metrics") == 20; }));
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t locker = in_child([&] {
    Database other(file_, Database::Mode::write);
    other.set_busy_timeout(std::chrono::seconds(5));
    Transaction transaction(other);
    if (write(ready[1], "x", 1) != 1) return 1;
    sleep(10);
    return 0;
  });
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  std::vector<double> times;
  const auto locked = Clock::now();
  for (int64_t step = 1; milliseconds_since(locked) < 9000; ++step) {
    const auto values = twenty_values(step);
    const auto begin = Clock::now();
    log.metrics(step, values);
    times.push_back(milliseconds_since(begin));
    usleep(10'000);
  }
  EXPECT_EQ(integer("SELECT count(*) FROM metrics"), 20) << "the lock did not hold";
  std::sort(times.begin(), times.end());
  printf("metrics() under a lock: median %.3f ms, longest %.3f ms\n", times[times.size() / 2], times.back());
  // A caller that waited for the lock would take nine seconds. On a busy machine any call may lose its processor.
  EXPECT_LT(times[times.size() / 2], 1.0);
  EXPECT_LT(times.back(), 1000.0);
  EXPECT_EQ(wait_for(locker), 0);
  EXPECT_TRUE(eventually([&] { return integer("SELECT count(*) FROM metrics") == 20 * int64_t(1 + times.size()); }));
  EXPECT_FALSE(log.incomplete());
  EXPECT_EQ(integer("SELECT heartbeat_at > started_at FROM runs"), 1) << "no heartbeat in ten seconds";
  log.end(ExitStatus::done);
  EXPECT_EQ(text("SELECT status || log_incomplete FROM runs"), "finished0");
}

TEST_F(RunLogTest, FlushesWhatWasRecordedBefore) {
  RunLog log(file_, start());
  for (int64_t step = 1; step <= 50; ++step) {
    log.metrics(step, {{"train/loss", 1}});
    log.flush(30s);
    ASSERT_EQ(integer("SELECT count(*) FROM metrics"), step);
  }
  log.end(ExitStatus::done);
}

TEST_F(RunLogTest, FlushWaitsForALockAsLongAsItIsTold) {
  RunLog log(file_, start());
  Database other(file_, Database::Mode::write);
  std::optional<Transaction> transaction(std::in_place, other);
  log.metrics(1, {{"train/loss", 1}});
  const auto begin = Clock::now();
  log.flush(1500ms);
  EXPECT_GE(milliseconds_since(begin), 1500) << "longer than SQLite waits for a lock";
  EXPECT_EQ(integer("SELECT count(*) FROM metrics"), 0);
  std::thread unlock([&] {
    std::this_thread::sleep_for(300ms);
    transaction.reset();
  });
  log.flush(30s);
  EXPECT_EQ(integer("SELECT count(*) FROM metrics"), 1);
  unlock.join();
  log.end(ExitStatus::done);
}

TEST_F(RunLogTest, DropsRecordsOnlyWhenTheQueueIsFull) {
  LogQueue queue;
  const MetricsRecord record{1, 0, std::vector<std::pair<std::string, double>>(100'000)};
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.push(record));
  EXPECT_FALSE(queue.push(record));
  std::deque<LogRecord> taken;
  queue.take(taken, std::chrono::milliseconds(1));
  EXPECT_EQ(taken.size(), 4u);
  EXPECT_FALSE(queue.push(record)) << "what the writer holds still takes room";
  queue.release(100'000);
  EXPECT_TRUE(queue.push(record));
}

}  // namespace
}  // namespace wmtp
