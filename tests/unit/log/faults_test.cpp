// Faults after the start: a killed process, a full disk, a permanent lock, many writers.
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "base/files.hpp"
#include "base/json.hpp"
#include "log/evaluations.hpp"
#include "log/maintenance.hpp"
#include "log/spool.hpp"
#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

class LogFaultsTest : public LogTest {
 protected:
  /// A child that logs one number at each step, until it is killed.
  pid_t endless_writer(useconds_t between_steps) {
    return in_child([&] {
      RunLog log(file_, start());
      for (int64_t step = 1;; ++step) {
        log.metrics(step, {{"train/loss", 1.0 / double(step)}});
        usleep(between_steps);
      }
      return 0;
    });
  }
};

TEST_F(LogFaultsTest, KeepsTheCommittedRowsOfAKilledRunAndShowsItAsLost) {
  const pid_t writer = endless_writer(1000);
  ASSERT_TRUE(eventually([&] {
    return std::filesystem::exists(file_) && LogReader(file_).query("SELECT 1 FROM metrics", {}, 500).capped;
  }));
  const int64_t seen = integer("SELECT count(*) FROM metrics");
  kill(writer, SIGKILL);
  EXPECT_EQ(wait_for(writer), 128 + SIGKILL);
  EXPECT_GE(integer("SELECT count(*) FROM metrics"), seen);
  EXPECT_EQ(integer("SELECT count(*) = max(step) FROM metrics"), 1) << "a gap";
  EXPECT_EQ(text("PRAGMA integrity_check"), "ok");
  EXPECT_EQ(text("SELECT status FROM v_runs"), "running");
  execute("UPDATE runs SET heartbeat_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-61 seconds')");
  EXPECT_EQ(text("SELECT status FROM v_runs"), "lost");
  EXPECT_EQ(LogReader(file_).unfinished_with_hash("c0ffee").size(), 1u);
}

TEST_F(LogFaultsTest, LosesNoVisibleRowInTwoHundredRandomKills) {
  constexpr int at_once = 4;  // writers, each with its own log, so that their waits overlap
  std::minstd_rand chance(5);
  int64_t seen_in_all = 0;
  const auto log_of = [&](int writer) { file_ = folder_ / std::to_string(writer) / "wmtp.db"; };
  for (int trial = 1; trial <= 200 / at_once; ++trial) {
    const std::string rows = " FROM metrics WHERE run_id = " + std::to_string(trial);
    std::vector<pid_t> writers;
    std::vector<useconds_t> lives;  // a writer commits every 100 ms
    for (int i = 0; i < at_once; ++i) {
      log_of(i);
      writers.push_back(endless_writer(100));
      lives.push_back(useconds_t(chance() % 250'000));
    }
    for (int i = 0; i < at_once; ++i) {
      log_of(i);
      EXPECT_TRUE(eventually([&] {
        return std::filesystem::exists(file_) && !LogReader(file_).query("SELECT 1" + rows, {}, 1).rows.empty();
      }));
    }
    std::sort(lives.begin(), lives.end());
    for (int i = 0; i < at_once; ++i) {
      usleep(i == 0 ? lives[0] : lives[size_t(i)] - lives[size_t(i) - 1]);
      log_of(i);
      const int64_t seen = integer("SELECT count(*)" + rows);
      kill(writers[size_t(i)], SIGKILL);
      EXPECT_EQ(wait_for(writers[size_t(i)]), 128 + SIGKILL);
      EXPECT_GE(integer("SELECT count(*)" + rows), seen) << "kill " << trial << " of log " << i;
      EXPECT_EQ(integer("SELECT count(*) = max(step)" + rows), 1) << "a gap after kill " << trial << " of log " << i;
      EXPECT_EQ(text("PRAGMA quick_check"), "ok") << "kill " << trial << " of log " << i;
      seen_in_all += seen;
    }
    ASSERT_FALSE(HasFailure());  // only here, when no writer is running
  }
  for (int i = 0; i < at_once; ++i) {
    log_of(i);
    EXPECT_EQ(text("PRAGMA integrity_check"), "ok");
  }
  EXPECT_GT(seen_in_all, 200 * 100) << "too few for a kill to hit anything";
}

TEST_F(LogFaultsTest, LetsTheLauncherCloseALostRunOnce) {
  const pid_t writer = in_child([&] {
    RunLog log(file_, start());
    raise(SIGKILL);
    return 0;
  });
  wait_for(writer);
  const std::string key = read_run_key(file_, 1);
  EXPECT_TRUE(close_lost_run(file_, 1, key, ExitStatus::peer, "rank 0 was killed by signal 9"));
  EXPECT_FALSE(close_lost_run(file_, 1, key, ExitStatus::bug, "again"));
  EXPECT_EQ(text("SELECT status || exit_code || (ended_at IS NOT NULL) FROM runs"), "failed61");
  EXPECT_EQ(text("SELECT group_concat(level || ' ' || message) FROM events"), "error rank 0 was killed by signal 9");
}

TEST_F(LogFaultsTest, LeavesAnEndedRunAloneWhenTheLauncherClosesIt) {
  RunLog(file_, start()).end(ExitStatus::interrupted);
  close_lost_run(file_, 1, read_run_key(file_, 1), ExitStatus::bug, "late");
  EXPECT_EQ(text("SELECT status FROM runs"), "interrupted");
  EXPECT_EQ(integer("SELECT count(*) FROM events"), 0);
}

TEST_F(LogFaultsTest, TakesTheLaunchersWordOnARunThatRankZeroHasFinished) {
  RunLog(file_, start()).end(ExitStatus::done);
  EXPECT_TRUE(close_lost_run(file_, 1, read_run_key(file_, 1), ExitStatus::peer, "rank 1 was killed by SIGKILL"));
  EXPECT_EQ(text("SELECT status || exit_code FROM runs"), "failed6");
}

TEST_F(LogFaultsTest, LeavesTheRowOfAnotherRunWithTheSameNumberAlone) {
  RunLog replaced(file_, start());
  for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(file_.string() + part);
  const RunLog other(file_, start("other"));
  ASSERT_EQ(other.run_id(), replaced.run_id());
  EXPECT_FALSE(close_lost_run(file_, 1, replaced.run_key(), ExitStatus::interrupted, "SIGTERM"));
  EXPECT_EQ(text("SELECT status FROM runs"), "running");
  EXPECT_EQ(integer("SELECT count(*) FROM events"), 0);
  EXPECT_TRUE(holds(refusal(ExitStatus::storage,
                            [&] {
                              delete_rows(file_, {{1, replaced.run_key()}});
                            }),
                    "was replaced"));
  LoggedEvaluation evaluation{.run_id = 1, .suite = "suite", .suite_sha256 = "sum", .run_key = replaced.run_key()};
  EXPECT_TRUE(holds(refusal(ExitStatus::storage, [&] { log_evaluation(file_, evaluation); }), "another run 1"));
}

TEST_F(LogFaultsTest, SpillsToATextFileWhenTheDiskIsFull) {
  const pid_t child = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    RunLog log(file_, start());
    log.metrics(1, {{"train/loss", 1.0}});
    if (!eventually([&] { return integer("SELECT count(*) FROM metrics") == 1; })) return 1;
    rlimit before, full;
    getrlimit(RLIMIT_FSIZE, &before);
    full = before;
    full.rlim_cur = std::filesystem::file_size(file_.string() + "-wal");  // no further byte fits
    setrlimit(RLIMIT_FSIZE, &full);
    for (int64_t step = 2; step <= 200; ++step) log.metrics(step, {{"train/loss", 1.0}, {"train/odd", 0.0 / 0.0}});
    log.event(0, "info", "note", 3, "line one\nline two \"quoted\"");
    log.generations(3, {{1, "def", " f()\xff"}});
    if (!eventually([&] { return log.incomplete(); })) return 2;
    setrlimit(RLIMIT_FSIZE, &before);  // there is space again
    log.metrics(201, {{"train/loss", 1.0}, {"train/odd", 2.0}});
    log.end(ExitStatus::done);
    return 0;
  });
  ASSERT_EQ(wait_for(child), 0);
  EXPECT_EQ(text("SELECT status || log_incomplete FROM runs"), "finished1");
  EXPECT_EQ(text("SELECT group_concat(step || name) FROM metrics"), "1train/loss,201train/loss,201train/odd")
      << "names of a transaction that was rolled back must be added again";
  std::ifstream spool(file_.string() + ".run-1.spool");
  std::string line;
  int metrics = 0, events = 0, nans = 0, texts = 0;
  while (std::getline(spool, line)) {
    const auto row = Json::parse(line);
    EXPECT_EQ(row["run_id"], 1);
    metrics += row["table"] == "metrics";
    nans += row["table"] == "metrics" && row["kind"] == "nan" && row["value"].is_null();
    texts += row["table"] == "generations" && row["step"] == 3 && row["text"] == " f()\uFFFD";
    events += row["table"] == "events" && row["message"] == "line one\nline two \"quoted\"";
  }
  spool.close();
  EXPECT_EQ(metrics, 2 * 199);
  EXPECT_EQ(nans, 199);
  EXPECT_EQ(texts, 1);
  EXPECT_EQ(events, 1);
  EXPECT_EQ(text("PRAGMA integrity_check"), "ok");

  load_spools(file_);
  EXPECT_FALSE(std::filesystem::exists(file_.string() + ".run-1.spool"));
  EXPECT_EQ(text("SELECT status || log_incomplete FROM runs"), "finished0");
  EXPECT_EQ(integer("SELECT count(*) FROM metrics WHERE name = 'train/loss' AND value = 1"), 201);
  EXPECT_EQ(integer("SELECT count(*) FROM metrics WHERE kind = 'nan' AND value IS NULL"), 199);
  EXPECT_EQ(text("SELECT message FROM events"), "line one\nline two \"quoted\"");
  EXPECT_EQ(text("SELECT step || text FROM generations"), "3 f()\uFFFD");
}

TEST_F(LogFaultsTest, AddsEachBatchOfASpoolOnceWhicheverProcessesReadIt) {
  const auto written = folder_ / "written";
  std::vector<pid_t> readers;  // before this process has threads, whose locks a child would never see opened
  for (int i = 0; i < 6; ++i)
    readers.push_back(in_child([&] {
      while (!std::filesystem::exists(written)) usleep(1000);
      for (int j = 0; j < 5; ++j) load_spools(file_);
      return 0;
    }));
  RunLog log(file_, start());
  Spool spool(file_, 1, log.run_key());
  const auto event = [](const char* message) { return EventRecord{1, 0, "info", "note", 1, message}; };
  ASSERT_TRUE(spool.write({event("one"), CheckpointRecord{2, 10, "step-2", 5, "kept"}}));
  ASSERT_TRUE(spool.write({event("two"), MemoryRecords{{{0, 1, "forward", "logits", 7}}},
                           SampleRecords{1, {{0, 3, 1, 65, "A", 0.5, 1.5, std::nullopt}}},
                           SampleAlignments{1, {{0, 3, 1, -0.25, -0.5}}}, RankTimes{{{1, 1, "forward", 0.25}}}}));
  log.checkpoint(2, "step-2", 0, "deleted");  // later than the spool's
  const auto copy = folder_ / "copy";
  std::filesystem::copy_file(spool.path(), copy);
  std::ofstream(written) << "now\n";
  for (const pid_t reader : readers) EXPECT_EQ(wait_for(reader), 0);
  EXPECT_FALSE(std::filesystem::exists(spool.path()));
  std::filesystem::rename(copy, spool.path());  // as after a crash before it was removed
  ASSERT_TRUE(spool.write({event("three")}));
  std::ofstream(spool.path(), std::ios::app) << "{\"table\":\"events\",\"mess";
  RunLog(file_, start("next")).end(ExitStatus::done);
  log.end(ExitStatus::done);
  EXPECT_EQ(text("SELECT group_concat(message) FROM events WHERE kind = 'note'"), "one,two,three");
  EXPECT_EQ(text("SELECT group_concat(state) FROM checkpoints"), "deleted");
  EXPECT_EQ(text("SELECT group_concat(phase || category || bytes) FROM memory"), "forwardlogits7");
  EXPECT_EQ(text("SELECT group_concat(text || weight || loss || coalesce(reference_loss, '-')) FROM samples"),
            "A0.51.5-");
  EXPECT_EQ(text("SELECT group_concat(product || cosine) FROM samples JOIN sample_alignments "
                 "USING (run_id, step, sequence, position, head)"),
            "-0.25-0.5");
  EXPECT_EQ(text("SELECT group_concat(rank || seconds) FROM rank_times"), "10.25");
  EXPECT_EQ(integer("SELECT sum(log_incomplete) FROM runs"), 0);
}

TEST_F(LogFaultsTest, RemovesNoSpoolThatItCouldNotRead) {
  RunLog log(file_, start());
  Spool spool(file_, 1, log.run_key());
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  const auto lowest_free = [] { return rlim_t(FileDescriptor(dup(STDIN_FILENO)).get()); };
  int kept = 0;
  for (rlim_t files = 0; files < 8; ++files) {
    const std::string note = std::to_string(files);
    ASSERT_TRUE(spool.write({EventRecord{1, 0, "info", "note", 1, note}}));
    const rlimit few{lowest_free() + files, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    load_spools(file_);
    setrlimit(RLIMIT_NOFILE, &before);
    const bool is_loaded = integer("SELECT count(*) FROM events WHERE kind = 'note' AND message = '" + note + "'") == 1;
    kept += std::filesystem::exists(spool.path());
    EXPECT_TRUE(is_loaded || std::filesystem::exists(spool.path())) << "with " << files << " more files";
  }
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 8);
  EXPECT_EQ(integer("SELECT count(*) FROM events WHERE kind = 'note'"), 8) << "each was added once";
}

TEST_F(LogFaultsTest, LeavesTheSpoolOfAReplacedLogAlone) {
  const std::filesystem::path kept = folder_ / "kept.db";
  RunLog replaced(file_, start());
  Spool spool(file_, 1, replaced.run_key());
  ASSERT_TRUE(spool.write({EventRecord{1, 0, "info", "note", 1, "mine"}}));
  snapshot_log(file_, kept);
  for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(file_.string() + part);
  RunLog other(file_, start("other"));
  ASSERT_TRUE(Spool(file_, 1, other.run_key()).write({EventRecord{1, 0, "info", "note", 1, "others"}}));
  load_spools(file_);
  EXPECT_EQ(text("SELECT group_concat(message) FROM events"), "others");
  EXPECT_TRUE(std::filesystem::exists(spool.path()));
  load_spools(kept);
  EXPECT_EQ(Database(kept, Database::Mode::read).text("SELECT group_concat(message) FROM events"), "mine");
  EXPECT_EQ(text("SELECT group_concat(message) FROM events"), "others");
}

TEST_F(LogFaultsTest, ContinuesInANewFileWhenTheLogIsDeletedOrReplaced) {
  for (const bool replaced : {false, true}) {
    RunLog log(file_, start());
    log.metrics(1, {{"train/loss", 3.0}});
    ASSERT_TRUE(eventually([&] { return integer("SELECT count(*) FROM metrics") == 1; }));
    for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(file_.string() + part);
    if (replaced) RunLog(file_, start("other")).end(ExitStatus::done);
    const auto kept = file_.string() + ".run-" + std::to_string(log.run_id()) + "-" + std::to_string(getpid()) + ".db";
    log.metrics(2, {{"train/loss", 2.0}});
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(kept + "-wal"); })) << "not only at the end";
    log.metrics(3, {{"train/loss", 1.0}});
    log.end(ExitStatus::done);
    EXPECT_FALSE(log.incomplete());
    Database database(kept, Database::Mode::read);
    const std::string of_run = " WHERE run_id = " + std::to_string(log.run_id());
    EXPECT_EQ(database.text("SELECT group_concat(step || ':' || value) FROM metrics" + of_run), "1:3.0,2:2.0,3:1.0");
    EXPECT_EQ(database.text("SELECT group_concat(kind) FROM events" + of_run), "log_moved");
    EXPECT_EQ(database.text("SELECT group_concat(status) FROM runs"), "finished");
    EXPECT_EQ(database.text("PRAGMA integrity_check"), "ok");
    EXPECT_EQ(std::filesystem::exists(file_), replaced);
    EXPECT_EQ(replaced ? text("SELECT group_concat(name || status) FROM runs") : "otherfinished", "otherfinished");
  }
}

TEST_F(LogFaultsTest, KeepsTheLastRowsOfALogThatIsDeletedBeforeTheEnd) {
  RunLog log(file_, start());
  std::filesystem::remove_all(folder_);
  log.end(ExitStatus::done);
  EXPECT_FALSE(log.incomplete());
  const auto kept = file_.string() + ".run-1-" + std::to_string(getpid()) + ".db";
  EXPECT_EQ(Database(kept, Database::Mode::read).text("SELECT status FROM runs"), "finished");
}

TEST_F(LogFaultsTest, FollowsNoLinkAtTheSpoolsPath) {
  Spool spool(file_, 1, "key");
  std::filesystem::create_symlink(folder_ / "theirs", spool.path());
  EXPECT_FALSE(spool.write({EventRecord{}}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "theirs"));
  std::filesystem::remove(spool.path());
  EXPECT_TRUE(spool.write({EventRecord{}}));
}

TEST_F(LogFaultsTest, ReadsNoSpoolThatIsNotAFileOrHasAnEndlessLine) {
  RunLog log(file_, start());
  const auto path = [&](const char* name) { return folder_ / (std::string(name) + ".spool"); };
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink(path("pipe"), path("link"));
  std::ofstream(path("endless")) << "x";
  std::filesystem::resize_file(path("endless"), uint64_t{1} << 40);
  const auto begin = std::chrono::steady_clock::now();
  load_spools(file_);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(LogFaultsTest, EndsInBoundedTimeUnderAPermanentLock) {
  RunLog log(file_, start());
  Database other(file_, Database::Mode::write);
  other.set_busy_timeout(std::chrono::seconds(5));
  Transaction transaction(other);
  log.metrics(1, {{"train/loss", 1.0}});
  const auto begin = std::chrono::steady_clock::now();
  log.end(ExitStatus::done);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_TRUE(log.incomplete());
  std::ifstream spool(file_.string() + ".run-1.spool");
  std::string rows;
  for (std::string line; std::getline(spool, line);) {
    const auto row = Json::parse(line);
    rows += row.value("table", "") + row.value("name", "") + row.value("status", "") + " ";
  }
  EXPECT_EQ(rows, "batch metricstrain/loss batch runsfinished ");
  transaction.commit();
  load_spools(file_);
  EXPECT_EQ(text("SELECT status || exit_code || log_incomplete FROM runs"), "finished00");
  EXPECT_EQ(integer("SELECT count(*) FROM metrics"), 1);
}

TEST_F(LogFaultsTest, SupportsEightConcurrentWriters) {
  constexpr int64_t num_steps = 300;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(in_child([&] {
      RunLog log(file_, start());
      for (int64_t step = 1; step <= num_steps; ++step) {
        log.metrics(step, {{"train/loss", 1.0}, {"train/lr", 2.0}, {"rank/" + std::to_string(getpid()), 3.0}});
        usleep(5000);
      }
      log.end(ExitStatus::done);
      return log.incomplete() ? 1 : 0;
    }));
  }
  for (pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(integer("SELECT count(*) FROM runs WHERE status = 'finished' AND log_incomplete = 0"), 8);
  EXPECT_EQ(integer("SELECT count(*) FROM metrics"), 8 * num_steps * 3);
  EXPECT_EQ(text("PRAGMA integrity_check"), "ok");
}

}  // namespace
}  // namespace wmtp
