#include "core/runlog/upkeep.hpp"

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
  delete_rows(file_, 1);
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

}  // namespace
}  // namespace wmtp
