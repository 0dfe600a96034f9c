#include "log/maintenance.hpp"
#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

using Upkeep = LogTest;

TEST_F(Upkeep, DeletesARunWithAllItsRows) {
  for (int i = 0; i < 2; ++i) {
    RunStart run = start("tiny");
    run.params = {{"seed", int64_t{1}}};
    run.parent_run = i;  // the second resumed the first
    RunLog log(file_, run);
    log.metrics(1, {{"train/loss", 2.0}});
  }
  delete_rows(file_, {{1, ""}});
  Database database(file_, Database::Mode::read);
  EXPECT_EQ(database.text("SELECT group_concat(id) FROM runs"), "2");
  EXPECT_EQ(database.integer("SELECT count(*) FROM runs WHERE parent_run IS NULL"), 1);
  for (const char* table : {"run_params", "metric_values"})
    EXPECT_EQ(database.text(std::string("SELECT group_concat(DISTINCT run_id) FROM ") + table), "2") << table;
}

TEST_F(Upkeep, CopiesALogInUse) {
  RunLog log(file_, start());
  for (int64_t step = 1; step <= 50; ++step) log.metrics(step, {{"train/loss", 2.0}});
  ASSERT_TRUE(
      eventually([&] { return Database(file_, Database::Mode::read).integer("SELECT count(*) FROM metrics") == 50; }));
  const auto copy = folder_ / "copy.db";
  snapshot_log(file_, copy);
  log.metrics(51, {{"train/loss", 2.0}});
  Database database(copy, Database::Mode::read);
  EXPECT_EQ(database.text("PRAGMA integrity_check"), "ok");
  EXPECT_EQ(database.integer("SELECT max(step) FROM metrics"), 50);
  EXPECT_FALSE(std::filesystem::exists(copy.string() + "-wal"));
  EXPECT_THROW(snapshot_log(file_, copy), Error) << "nothing is overwritten";
  EXPECT_THROW(snapshot_log(folder_ / "none.db", folder_ / "other.db"), Error);
  EXPECT_THROW(snapshot_log(file_, folder_ / "no/folder.db"), Error);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other.db"));
}

TEST_F(Upkeep, LabelsARun) {
  { RunLog log(file_, start()); }
  set_note(file_, 1, "first");
  set_note(file_, 1, "second");
  change_tags(file_, 1, {"b", "a", "a"}, {});
  change_tags(file_, 1, {"c"}, {"b", "absent"});
  set_archived(file_, 1, true);
  set_archived(file_, 1, true);
  EXPECT_EQ(text("SELECT note || ' ' || tags || ' ' || archived FROM v_runs"), "second a c 1");
  set_note(file_, 1, "");
  set_archived(file_, 1, false);
  EXPECT_EQ(text("SELECT coalesce(note, 'none') || archived FROM v_runs"), "none0");
  EXPECT_THROW(set_note(file_, 7, "there is no such run"), Error);
}

TEST_F(Upkeep, RenamesARunInThePathsOfItsCheckpoints) {
  {
    RunLog log(file_, start("old"));
    log.checkpoint(1, "runs/1-old/step-000001", 1, "kept");
    log.checkpoint(2, "1-old/step-000002", 1, "kept");
    log.checkpoint(3, "/1-older/1-old/model", 1, "kept");
  }
  rename_rows(file_, 1, "new", "1-old", "1-new");
  EXPECT_EQ(text("SELECT name FROM runs"), "new");
  EXPECT_EQ(text("SELECT group_concat(path, ' ') FROM (SELECT path FROM checkpoints ORDER BY step)"),
            "runs/1-new/step-000001 1-new/step-000002 /1-older/1-new/model");
}

}  // namespace
}  // namespace wmtp
