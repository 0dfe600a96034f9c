#include "job/reusable_run.hpp"

#include "experiment/canonical.hpp"
#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

using ReusableRun = LogTest;

TEST_F(ReusableRun, IsNotFoundInAnEmptyLog) { EXPECT_FALSE(reusable_run(std::string(64, '0'), file_)); }

TEST_F(ReusableRun, IsComparedWithTheExperimentBySettingsThatCount) {
  Experiment experiment;
  experiment.name = "trial";
  experiment.optimizer.lr = 0.001;
  EXPECT_EQ(difference_from_newest(LogReader(file_), experiment), "") << "no log";
  RunStart start = LogTest::start("trial");
  start.params = flat_values(experiment);
  RunLog(file_, start).end(ExitStatus::done);
  const auto difference = [&] { return difference_from_newest(LogReader(file_), experiment); };
  EXPECT_EQ(
      difference(),
      "; the newest run of its name, 1, has the same settings, but other data, weights, plugins, stages or ranks");
  experiment.log.every_steps = 10;  // no part of a run's identity
  experiment.optimizer.lr = 0.002;
  EXPECT_EQ(difference(), "; the newest run of its name, 1, has optimizer.lr = 0.001 (here 0.002)");
  experiment.schedule.name = Schedule::cosine;
  execute("UPDATE run_params SET value_text = '\033[31m' WHERE key = 'schedule.name'");
  EXPECT_EQ(difference(),
            R"(; the newest run of its name, 1, has optimizer.lr = 0.001 (here 0.002) and schedule.name = )"
            R"("\x1b[31m" (here "cosine"))");
  execute("DELETE FROM run_params");
  EXPECT_TRUE(difference().ends_with(" and other differences")) << difference();
  experiment.name = "another";
  EXPECT_EQ(difference(), "");
}

}  // namespace
}  // namespace wmtp
