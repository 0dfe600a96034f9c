// The queries in db/queries on a small log with known answers, and their query plans.
#include <set>
#include <sstream>

#include "support/log_fixture.hpp"
#include "support/source_tree.hpp"

namespace wmtp {
namespace {

const std::filesystem::path shown_queries = source_tree() / "db/queries";

class QueriesTest : public LogTest {
 protected:
  QueriesTest() {
    one("a", "full_shard", 0.6, 2.0, 100, ExitStatus::done);
    one("b", "full_shard", 0.6, 1.0, 300, ExitStatus::done);
    one("c", "no_shard", 1.0, 3.0, 900, ExitStatus::done);
    one("d", "no_shard", 1.0, 0.5, 900, ExitStatus::guard);
  }

  void one(const std::string& name, const std::string& strategy, double keep, double loss, int64_t mib,
           ExitStatus status) {
    RunStart begin = start(name);
    begin.strategy = strategy;
    begin.params = {{"pipeline.keep", keep}};
    begin.plugins = {{"pipeline", "rho1", "1.0", "0123456789abcdef", "/p/rho1.so"}};
    RunLog log(file_, begin);
    log.metrics(0, {{"valid/loss", 9.0}});
    for (int64_t step = 1; step <= 100; ++step) {
      log.metrics(step, {{"train/loss", loss + 1},
                         {"perf/step_seconds", step == 42 ? 5.0 : 1.0},
                         {"rho1/selection_ratio", keep},
                         {"rho1/ce_selected", 1.0},
                         {"rho1/ce_unselected", 2.0},
                         {"train/tokens", 1000.0 * double(step)}});
    }
    log.metrics(100, {{"valid/loss", loss}, {"train/grad_norm", 0.0 / 0.0}});
    log.metrics(100, {{"time/head_1", 2.0}, {"time/head_2", 3.0}, {"time/forward", 5.0}, {"time/data", 10.0}});
    log.samples(
        100,
        {{0, 0, 1, 7, "def", {}, {}, {}}, {0, 1, 1, 8, " main", 1.0, 4.0, 3.0}, {0, 2, 1, 9, "(", 0.0, 0.5, 0.75}});
    log.sample_alignments(100, {{0, 1, 1, 0.5, 1.0}});
    log.memory({{0, 100, "peak", "resident", mib << 20}, {1, 100, "peak", "resident", mib << 19}});
    if (status != ExitStatus::done) log.event(0, "error", "guard", 100, "ten spikes in a row");
    log.end(status);
  }

  static std::string content(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  Table ask(const std::string& name) const {
    return LogReader(file_).query(content(shown_queries / (name + ".sql")), {}, 1000);
  }
};

TEST_F(QueriesTest, EveryFileIsAQueryThatRuns) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(shown_queries)) {
    EXPECT_FALSE(ask(file.path().stem()).rows.empty()) << file.path();
    ++files;
  }
  EXPECT_EQ(files, 10);
}

TEST_F(QueriesTest, TheQueriesOfTheSchemaPageRun) {
  const std::string page = content(shown_queries / "../README.md");
  const size_t begin = page.find("```sql\n") + 7;
  std::stringstream block(page.substr(begin, page.find("```", begin) - begin));
  int asked = 0;
  for (std::string sql; std::getline(block, sql, ';') && sql != "\n"; ++asked) {
    EXPECT_NO_THROW(LogReader(file_).query(sql, {}, 1000)) << sql;
  }
  EXPECT_EQ(asked, 3);
}

TEST_F(QueriesTest, BestByValidationExcludesUnfinishedRuns) {
  const Table best = ask("best_by_validation");
  ASSERT_EQ(best.rows.size(), 3u);
  EXPECT_EQ(best.rows[0][1], "b");
  EXPECT_EQ(best.rows[0][3], 1.0);
  EXPECT_EQ(best.rows[0][4], 100);
  EXPECT_EQ(best.rows[0][5], 100000);
}

TEST_F(QueriesTest, HeadOneIsComparedBecauseAMeanOverHeadsDependsOnTheirNumber) {
  const auto log_heads = [&](const std::string& name, double mean, double head_1) {
    RunStart begin = start(name);
    begin.params = {{"pipeline.keep", 0.3}};
    RunLog log(file_, begin);
    log.metrics(100, {{"train/loss", 1.0}, {"valid/loss", mean}, {"valid/ce_head_1", head_1}});
    log.end(ExitStatus::done);
  };
  log_heads("four heads", 4.0, 1.5);
  log_heads("one head", 2.0, 2.0);
  const Table best = ask("best_by_validation");
  EXPECT_EQ(best.rows.at(0)[1], "four heads");
  EXPECT_EQ(best.rows.at(0)[3], 1.5);
  EXPECT_EQ(best.rows.at(1)[1], "one head");
  const Table effect = ask("effect_of_an_option");
  EXPECT_EQ(effect.rows.at(1)[0], 0.3);
  EXPECT_EQ(effect.rows.at(1)[2], 1.75);
}

TEST_F(QueriesTest, EffectOfAnOptionAveragesOverRuns) {
  const Table effect = ask("effect_of_an_option");
  ASSERT_EQ(effect.rows.size(), 2u);
  EXPECT_EQ(effect.rows[0], (std::vector<Json>{0.6, 2, 1.5, 1.0, 2.0}));
}

TEST_F(QueriesTest, MemoryByStrategyTakesTheLargestRank) {
  const Table memory = ask("memory_by_strategy");
  ASSERT_EQ(memory.rows.size(), 2u);
  EXPECT_EQ(memory.rows[0][0], "full_shard");
  EXPECT_EQ(memory.rows[0][4], 300.0);
}

TEST_F(QueriesTest, InterruptionsShowTheLastEvent) {
  const Table stopped = ask("interruptions");
  ASSERT_EQ(stopped.rows.size(), 1u);
  EXPECT_EQ(stopped.rows[0][1], "d");
  EXPECT_EQ(stopped.rows[0][3], 5);
  EXPECT_EQ(stopped.rows[0][6], "ten spikes in a row");
}

TEST_F(QueriesTest, SlowestStepsAreComparedWithTheMean) {
  const Table slow = ask("slowest_steps");
  EXPECT_EQ(slow.rows[0][0], 42);
  EXPECT_NEAR(slow.rows[0][2].get<double>(), 5.0 / 1.04, 1e-9);
}

TEST_F(QueriesTest, WhereTimeGoesAddsUpTheHeads) {
  const Table time = ask("where_time_goes");
  ASSERT_EQ(time.rows.size(), 3u);
  EXPECT_EQ(time.rows[0], (std::vector<Json>{"data", 10.0, 0.5}));
  EXPECT_EQ(time.rows[1][1], 5.0);
  EXPECT_EQ(time.rows[2][1], 5.0);
}

TEST_F(QueriesTest, TokensLeftOutAreThoseOfTheSmallestWeight) {
  const Table tokens = ask("tokens_left_out");
  ASSERT_EQ(tokens.rows.size(), 2u) << "the first token is nobody's target";
  EXPECT_EQ(tokens.rows[0], (std::vector<Json>{0, 2, "(", 0.0, 0.5, 0.75, -0.25}));
}

TEST_F(QueriesTest, NotFiniteFindsTheNaN) { EXPECT_EQ(ask("not_finite").rows[0][2], "nan"); }

TEST_F(QueriesTest, LatestHoldsTheLastPointOfEachMetric) {
  EXPECT_EQ(text("SELECT value FROM v_latest WHERE run_id = 2 AND name = 'valid/loss'"), "1.0");
  EXPECT_EQ(integer("SELECT step FROM v_latest WHERE run_id = 2 AND name = 'train/loss'"), 100);
  EXPECT_EQ(integer("SELECT count(*) FROM v_latest WHERE run_id = 2"), 12);
}

TEST_F(QueriesTest, ViewsOfOneRunReadNoWholeTable) {
  for (const char* sql : {"SELECT step, value FROM metrics WHERE run_id = 1 AND name = 'train/loss'",
                          "SELECT * FROM v_latest WHERE run_id = 1", "SELECT * FROM v_runs WHERE id = 1",
                          "SELECT * FROM v_memory_peak WHERE run_id = 1",
                          "SELECT * FROM v_metrics WHERE run_id = 1 AND name = 'valid/loss'",
                          "SELECT * FROM events WHERE run_id = 1 ORDER BY time_ns"}) {
    const Table plan = LogReader(file_).query(std::string("EXPLAIN QUERY PLAN ") + sql, {}, 1000);
    ASSERT_FALSE(plan.capped) << sql;
    for (const auto& row : plan.rows) {
      const std::string step = row[3];
      static const std::set<std::string> small{"SCAN CONSTANT ROW", "SCAN l",         "SCAN lines",        "SCAN n",
                                               "SCAN names",        "SCAN v_lineage", "SCAN v_memory_peak"};
      EXPECT_TRUE(!step.starts_with("SCAN ") || step.starts_with("SCAN (subquery") || small.contains(step))
          << sql << ": " << step;
      if (step.find("metric_values_by_name (") != step.npos) {
        EXPECT_NE(step.find("run_id=?"), step.npos) << sql << ": " << step;
      }
    }
  }
}

TEST_F(QueriesTest, DeletingARunTakesItsRowsAlong) {
  execute("DELETE FROM runs WHERE id = 1");
  for (const char* table : {"metrics", "run_params", "run_plugins", "memory", "samples", "sample_alignments"})
    EXPECT_EQ(integer(std::string("SELECT count(*) FROM ") + table + " WHERE run_id = 1"), 0) << table;
}

}  // namespace
}  // namespace wmtp
