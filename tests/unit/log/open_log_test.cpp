// Opening a log: new, old, foreign, damaged and locked files; several programs at once.
#include "log/open_log.hpp"

#include <map>

#include "base/embedded.hpp"
#include "log/maintenance.hpp"
#include "log/migrations.hpp"
#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

using OpenLogTest = LogTest;

TEST_F(OpenLogTest, CreatesARunLogInWalMode) {
  open_log_for_writing(file_);
  EXPECT_EQ(text("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(integer("PRAGMA application_id"), 0x776d7470);
  EXPECT_EQ(integer("PRAGMA user_version"), newest_schema_version());
  EXPECT_EQ(integer("PRAGMA page_size"), 4096);
}

TEST_F(OpenLogTest, HasStrictRowidTablesOnly) {
  open_log_for_writing(file_);
  EXPECT_EQ(integer("SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' "
                    "AND name NOT LIKE 'sqlite_%' AND (strict = 0 OR wr = 1)"),
            0);
  EXPECT_EQ(integer("SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND name IN ('runs', 'run_params', "
                    "'run_plugins', 'metrics', 'memory', 'checkpoints', 'events', 'samples')"),
            8);
}

TEST_F(OpenLogTest, EnforcesForeignKeysAndDistrustsTheSchema) {
  Database database = open_log_for_writing(file_);
  EXPECT_EQ(database.integer("PRAGMA foreign_keys"), 1);
  EXPECT_EQ(database.integer("PRAGMA trusted_schema"), 0);
  EXPECT_THROW(database.execute("INSERT INTO run_params VALUES (77, 'a', 'b', NULL)"), SqliteError);
}

TEST_F(OpenLogTest, ReopensWithoutAChange) {
  RunLog(file_, start()).end(ExitStatus::done);
  const int64_t before = integer("PRAGMA schema_version");
  RunLog(file_, start()).end(ExitStatus::done);
  EXPECT_EQ(integer("PRAGMA schema_version"), before);
  EXPECT_EQ(integer("SELECT count(*) FROM runs"), 2);
}

TEST_F(OpenLogTest, RecreatesAnOutdatedView) {
  open_log_for_writing(file_);
  execute("DROP VIEW v_runs; CREATE VIEW v_runs AS SELECT id FROM runs; DROP VIEW v_latest");
  EXPECT_NO_THROW(LogReader(file_).query("SELECT status FROM v_runs", {}, 1)) << "a reader brings its own";
  open_log_for_writing(file_);
  EXPECT_EQ(integer("SELECT count(*) FROM v_runs WHERE status = 'lost'"), 0);
  EXPECT_EQ(integer("SELECT count(*) FROM v_latest"), 0);
}

TEST_F(OpenLogTest, RefusesANewerVersionWithBothNumbers) {
  open_log_for_writing(file_);
  execute("PRAGMA user_version = 999");
  for (const auto& open : {std::function<void()>([&] { RunLog(file_, start()); }),
                           std::function<void()>([&] { LogReader reader(file_); })}) {
    const std::string text = refusal(ExitStatus::storage, open);
    EXPECT_TRUE(holds(text, file_.string()) && holds(text, "999") &&
                holds(text, "up to " + std::to_string(newest_schema_version())) && holds(text, "--db"))
        << text;
  }
}

TEST_F(OpenLogTest, RefusesAFileThatIsNotADatabase) {
  std::ofstream(file_) << "a text that is long enough to be looked at as the header of a database, and then some more "
                          "of it until it is past a hundred bytes";
  const std::string text = refusal(ExitStatus::storage, [&] { RunLog(file_, start()); });
  EXPECT_TRUE(holds(text, file_.string()) && holds(text, "not a database") && holds(text, "--db")) << text;
  refusal(ExitStatus::storage, [&] { LogReader reader(file_); });
}

TEST_F(OpenLogTest, DoesNotChangeAnotherProgramsDatabase) {
  {
    Database other(file_, Database::Mode::create);
    other.execute("CREATE TABLE theirs (a)");
  }
  EXPECT_TRUE(holds(refusal(ExitStatus::storage, [&] { RunLog(file_, start()); }), "another program"));
  EXPECT_EQ(text("PRAGMA journal_mode"), "delete");
  EXPECT_EQ(integer("SELECT count(*) FROM sqlite_schema"), 1);
}

TEST_F(OpenLogTest, RefusesADamagedFile) {
  {
    RunLog log(file_, start());
    for (int64_t step = 0; step < 3000; ++step) log.metrics(step, {{"train/loss", 1.0}, {"train/lr", 0.1}});
    log.end(ExitStatus::done);
  }
  const auto size = std::filesystem::file_size(file_);
  {
    std::fstream bytes(file_, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(std::streamoff(size / 2));
    bytes << std::string(9000, '\xff');
  }
  EXPECT_TRUE(holds(refusal(ExitStatus::storage, [&] { RunLog(file_, start()); }), file_.string()));
}

TEST_F(OpenLogTest, DoesNotTakeALackOfMemoryForDamage) {
  {
    RunLog log(file_, start());
    for (int64_t step = 0; step < 3000; ++step) log.metrics(step, {{"train/loss", 1.0}, {"train/lr", 0.1}});
    log.end(ExitStatus::done);
  }
  std::map<int, int> endings;
  for (int kib = 60; kib < 600; kib += 10) {
    const pid_t child = fork();
    if (child == 0) {  // the limit is one of the process, and stays
      std::string text;
      try {
        Database(file_, Database::Mode::read).text("PRAGMA hard_heap_limit = " + std::to_string(kib * 1024));
        open_log_for_writing(file_);
      } catch (const SqliteError& error) {
        text = error.what();
      }
      _exit(holds(text, "is damaged") ? 2 : holds(text, "cannot be checked: Cannot allocate memory") ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ++endings[WEXITSTATUS(status)];
  }
  EXPECT_EQ(endings[2], 0);
  EXPECT_GT(endings[1], 0) << "no limit was reached while the pages were checked";
}

TEST_F(OpenLogTest, RefusesATruncatedFile) {
  RunLog(file_, start()).end(ExitStatus::done);
  std::filesystem::resize_file(file_, std::filesystem::file_size(file_) / 2);
  EXPECT_TRUE(holds(refusal(ExitStatus::storage, [&] { RunLog(file_, start()); }), file_.string()));
}

TEST_F(OpenLogTest, RefusesAFolderThatCannotBeCreated) {
  std::ofstream(folder_ / "file") << "x";
  const auto below = folder_ / "file" / "wmtp.db";
  const std::string text = refusal(ExitStatus::storage, [&] { RunLog(below, start()); });
  EXPECT_TRUE(holds(text, below.string()) && holds(text, "--db")) << text;
}

TEST_F(OpenLogTest, RefusesAFolderAndAFileThatCannotBeWritten) {
  RunLog(file_, start()).end(ExitStatus::done);
  std::filesystem::remove(file_.string() + "-wal");
  std::filesystem::remove(file_.string() + "-shm");
  chmod(file_.c_str(), 0444);
  chmod(folder_.c_str(), 0555);
  const pid_t child = in_child([&] {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 2;
    for (const auto& file : {folder_ / "new.db", file_}) {
      const std::string text = refusal(ExitStatus::storage, [&] { RunLog(file, start()); });
      if (!holds(text, file.string()) || !holds(text, "make the file and its folder writable")) {
        fprintf(stderr, "%s\n", text.c_str());
        return 3;
      }
    }
    return LogReader(file_).query("SELECT id FROM v_runs", {}, 9).rows.size() == 1 ? 0 : 4;  // reading still works
  });
  EXPECT_EQ(wait_for(child), 0);
  chmod(folder_.c_str(), 0755);
}

TEST_F(OpenLogTest, ReadsTheNewestRowsOfALogInAFolderThatCannotBeWritten) {
  const auto copied = folder_ / "copied";
  std::filesystem::create_directory(copied);
  {
    const Database reader(file_, Database::Mode::create);  // keeps the -wal file
    RunLog log(file_, start());
    for (const char* part : {"wmtp.db", "wmtp.db-wal"}) std::filesystem::copy_file(folder_ / part, copied / part);
    log.end(ExitStatus::done);
  }
  ASSERT_GT(std::filesystem::file_size(copied / "wmtp.db-wal"), 0u);
  chmod(folder_.c_str(), 0755);
  for (const char* part : {"wmtp.db", "wmtp.db-wal"}) chmod((copied / part).c_str(), 0444);
  chmod(copied.c_str(), 0555);
  const pid_t child = in_child([&] {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 2;
    if (LogReader(copied / "wmtp.db").query("SELECT id FROM v_runs").rows.size() != 1) return 3;
    const std::string snapshot = "/tmp/wmtp-copy-" + std::to_string(getpid());
    snapshot_log(copied / "wmtp.db", snapshot);
    const size_t rows = LogReader(snapshot).query("SELECT id FROM v_runs").rows.size();
    std::filesystem::remove(snapshot);
    if (rows != 1) return 4;
    setenv("TMPDIR", copied.c_str(), 1);
    const std::string text = refusal(ExitStatus::storage, [&] { LogReader(copied / "wmtp.db"); });
    if (holds(text, "copy both files together") && holds(text, "--db")) return 0;
    fprintf(stderr, "%s\n", text.c_str());
    return 5;
  });
  EXPECT_EQ(wait_for(child), 0);
  chmod(copied.c_str(), 0755);
}

TEST_F(OpenLogTest, WaitsForALockAtTheStart) {
  open_log_for_writing(file_);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t locker = in_child([&] {
    Database other(file_, Database::Mode::write);
    Transaction transaction(other);
    if (write(ready[1], "x", 1) != 1) return 1;
    sleep(2);
    return 0;
  });
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  RunLog log(file_, start());
  EXPECT_EQ(log.run_id(), 1);
  log.end(ExitStatus::done);
  EXPECT_EQ(wait_for(locker), 0);
}

TEST_F(OpenLogTest, GivesUpOnAPermanentLock) {
  open_log_for_writing(file_);
  Database other(file_, Database::Mode::write);
  Transaction transaction(other);
  const std::string text =
      refusal(ExitStatus::storage, [&] { open_log_for_writing(file_, std::chrono::milliseconds(300)); });
  EXPECT_TRUE(holds(text, file_.string()) && holds(text, "locked") && holds(text, "it is locked by another program"))
      << text;
}

TEST_F(OpenLogTest, LetsEightProgramsStartConcurrentlyOnANewFile) {
  for (int round = 0; round < 5; ++round) {
    file_ = folder_ / ("round" + std::to_string(round) + ".db");
    int gate[2];
    ASSERT_EQ(pipe(gate), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
      children.push_back(in_child([&] {
        close(gate[1]);
        char byte;
        if (read(gate[0], &byte, 1) != 0) return 1;
        RunLog(file_, start()).end(ExitStatus::done);
        return 0;
      }));
    }
    close(gate[0]);
    close(gate[1]);
    for (pid_t child : children) EXPECT_EQ(wait_for(child), 0);
    EXPECT_EQ(integer("SELECT count(*) FROM runs WHERE status = 'finished'"), 8);
    EXPECT_EQ(text("PRAGMA journal_mode"), "wal");
  }
}

TEST_F(OpenLogTest, FallsBackToARollbackJournalWhereWalFails) {
  // A folder in place of WAL's shared-memory file: WAL is accepted, and fails at the first write.
  std::filesystem::create_directory(file_.string() + "-shm");
  RunLog log(file_, start());
  log.metrics(1, {{"train/loss", 1.0}});
  log.end(ExitStatus::done);
  EXPECT_EQ(text("PRAGMA journal_mode"), "delete");
  EXPECT_EQ(integer("SELECT count(*) FROM metrics"), 1);
  EXPECT_FALSE(log.incomplete());
}

}  // namespace
}  // namespace wmtp
