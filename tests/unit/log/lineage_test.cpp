// The views over a run and the runs that it resumed.
#include "log/log_reader.hpp"
#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

class LineageTest : public LogTest {
 protected:
  /// Logs steps `from` to `to` with the loss `level`, and totals that begin at 0.
  int64_t segment(int64_t parent, int64_t from, int64_t to, double level) const {
    RunStart given = start();
    given.parent_run = parent;
    RunLog log(file_, given);
    for (int64_t step = from; step <= to; ++step)
      log.metrics(step, {{"train/loss", level}, {"perf/run_seconds", double(step - from + 1)}});
    log.end(ExitStatus::interrupted);
    return log.run_id();
  }
  std::string curve(int64_t run, const std::string& name) const {
    std::string found;
    LogReader(file_).each_row(
        "SELECT step, value FROM v_curves WHERE run_id = ?1 AND name = ?2 ORDER BY step", {run, name},
        [&](const Statement& row) { found += std::to_string(row.integer(0)) + ":" + row.text(1) + " "; });
    return found;
  }
};

TEST_F(LineageTest, ACurveHasEachStepOnceFromTheSegmentThatKeptIt) {
  const int64_t first = segment(0, 1, 5, 1), second = segment(first, 4, 6, 2), third = segment(second, 6, 7, 3);
  EXPECT_EQ(curve(third, "train/loss"), "1:1.0 2:1.0 3:1.0 4:2.0 5:2.0 6:3.0 7:3.0 ");
  EXPECT_EQ(curve(second, "train/loss"), "1:1.0 2:1.0 3:1.0 4:2.0 5:2.0 6:2.0 ");
  EXPECT_EQ(curve(first, "train/loss"), "1:1.0 2:1.0 3:1.0 4:1.0 5:1.0 ");
}

TEST_F(LineageTest, ARunThatIsStartedAgainReplacesAllOfItsParentEvenStepZero) {
  const int64_t first = segment(0, 0, 2, 1), second = segment(first, 1, 1, 2), third = segment(second, 0, 3, 3);
  EXPECT_EQ(curve(second, "train/loss"), "1:2.0 ");
  EXPECT_EQ(curve(third, "train/loss"), "0:3.0 1:3.0 2:3.0 3:3.0 ");
  EXPECT_EQ(text("SELECT segments FROM v_runs WHERE id = 3"), "3");
}

TEST_F(LineageTest, TwoRunsThatResumedTheSameOneHaveACurveEach) {
  const int64_t first = segment(0, 1, 4, 1), a = segment(first, 3, 4, 2), b = segment(first, 4, 5, 3);
  EXPECT_EQ(curve(a, "train/loss"), "1:1.0 2:1.0 3:2.0 4:2.0 ");
  EXPECT_EQ(curve(b, "train/loss"), "1:1.0 2:1.0 3:1.0 4:3.0 5:3.0 ");
}

TEST_F(LineageTest, TotalsIncludeTheEarlierSegments) {
  const int64_t first = segment(0, 1, 5, 1), second = segment(first, 4, 6, 2);
  EXPECT_EQ(curve(second, "perf/run_seconds"), "1:1.0 2:2.0 3:3.0 4:6.0 5:7.0 6:8.0 ")
      << "the repeated steps took time, too";
}

TEST_F(LineageTest, ASegmentWithoutAStepKeepsTheCurveOfItsParent) {
  const int64_t first = segment(0, 1, 3, 1), second = segment(first, 2, 1, 2);
  EXPECT_EQ(curve(second, "train/loss"), "1:1.0 2:1.0 3:1.0 ");
  EXPECT_EQ(text("SELECT steps || ' ' || train_loss || ' ' || segments FROM v_runs WHERE id = 2"), "3 1.0 2");
  EXPECT_EQ(integer("SELECT resumed_by FROM v_runs WHERE id = 1"), second);
}

TEST_F(LineageTest, AParentThatIsNotOlderIsIgnored) {
  const int64_t first = segment(0, 1, 2, 1), second = segment(first, 2, 3, 2);
  execute("UPDATE runs SET parent_run = " + std::to_string(second) + " WHERE id = " + std::to_string(first));
  EXPECT_EQ(curve(second, "train/loss"), "1:1.0 2:2.0 3:2.0 ");
}

TEST_F(LineageTest, AStepThatTheLaterSegmentLoggedWithoutALossHasNone) {
  const int64_t first = segment(0, 1, 5, 1);
  RunStart given = start();
  given.parent_run = first;
  RunLog log(file_, given);
  log.metrics(4, {{"train/tokens", 40}});
  log.metrics(5, {{"train/tokens", 50}, {"train/loss", 2}});
  log.end(ExitStatus::interrupted);
  EXPECT_EQ(curve(log.run_id(), "train/loss"), "1:1.0 2:1.0 3:1.0 5:2.0 ");
}

}  // namespace
}  // namespace wmtp
