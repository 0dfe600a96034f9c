// The training of a study in a real log, by runs that only log a loss.
#include "study/study_training.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

using testing::ElementsAre;

class TrainedStudy : public LogTest {
 protected:
  TrainedStudy() {
    study_.file = "made.toml";
    study_.name = "made";
    study_.metric = "valid/loss";
    study_.seeds = {1, 2, 3};
    study_.members.resize(2);
    study_.members[0].name = study_.members[0].title = "plain";
    study_.members[1].name = study_.members[1].title = "good";
    study_.members[1].place = "made.toml:9:1";
  }

  void tune_good() {
    study_.members[1].tuned = {{"optimizer.lr", "made.toml:12:1", {"0.1", "0.2"}}};
    study_.tuning.seeds = {7, 8};
  }

  /// "good" is better by about a half, and by another one with the learning rate 0.2.
  static double loss_of(const StudyRun& run) {
    return 5 - (run.member == 1 ? 0.5 + 0.001 * double(run.seed) : 0) - (holds(run.how.title, "lr=0.2") ? 0.5 : 0);
  }

  RunEnd train(const StudyRun& run) {
    trained_.push_back(run.how.title);
    const auto other = ends_.find(run.how.title);
    const ExitStatus status = other == ends_.end() ? ExitStatus::done : other->second;
    RunStart of_run = start("made");
    of_run.host = "here";
    RunLog log(file_, of_run);
    log.metrics(10, {{"valid/loss", loss_of(run)}, {"train/tokens", 1000}});
    log.end(status);
    return {status == ExitStatus::done || status == ExitStatus::guard ? log.run_id() : 0, int(status)};
  }

  StudyRunner runner() {
    StudyRunner runner;
    runner.database = file_;
    runner.train = [this](const std::vector<StudyRun>& runs) {
      TrainedRuns trained;
      trained.stop_requested = stop_requested_;
      for (const StudyRun& run : runs) {
        trained.ends.push_back(train(run));
        if (trained.ends.back().run == 0) trained.exit_code = trained.ends.back().code;
      }
      return trained;
    };
    runner.data_hash = [](const StudyRun&) { return "data"; };
    runner.operations_per_step = [](const StudyRun&) { return 1e6; };
    return runner;
  }
  int train_all() { return train_study(study_, runner(), results_); }

  Study study_;
  StudyResults results_;
  bool stop_requested_ = false;
  std::map<std::string, ExitStatus> ends_;  ///< of runs that do not finish, by title
  std::vector<std::string> trained_;
};

TEST_F(TrainedStudy, MistakesForTheUsualMetricsAreNamedBeforeAnythingIsLogged) {
  RunLog(file_, start("made")).end(ExitStatus::done);
  const LogReader log(file_);
  EXPECT_THAT(unknown_metrics(log, {"val/loss", "valid/loss", "valid/ce_head_2", "train/mine", "eval/greedy"}),
              ElementsAre("no run of the log has the metric \"val/loss\"; did you mean valid/loss?"))
      << "of the others each may be logged";
}

TEST_F(TrainedStudy, TrainsOnlyWhatTheResultsLack) {
  StudyResult& known = results_.runs.emplace_back();
  known.member = "good";
  known.seed = 2;
  known.steps = {10};
  known.metrics["valid/loss"] = {4.25};
  EXPECT_TRUE(lacks_runs(study_, results_));
  EXPECT_EQ(train_all(), 0);
  EXPECT_THAT(trained_, ElementsAre("plain seed=1", "good seed=1", "plain seed=2", "plain seed=3", "good seed=3"));
  EXPECT_FALSE(lacks_runs(study_, results_));
  ASSERT_EQ(results_.runs.size(), 6u);
  EXPECT_EQ(find_result(results_.runs, "good", 2)->metrics.at("valid/loss").back(), 4.25);
  const StudyResult& first = results_.runs.front();
  EXPECT_EQ(first.seed, 1);
  EXPECT_EQ(first.metrics.at("valid/loss").back(), 5);
  EXPECT_EQ(first.machine, "here");
  EXPECT_EQ(first.operations_per_step, 1e6);
}

TEST_F(TrainedStudy, EndsAtALookThatDecidesEveryComparison) {
  study_.seeds = {1, 2, 3, 4};
  study_.stops = {2};
  EXPECT_EQ(train_all(), 0);
  EXPECT_THAT(trained_, ElementsAre("plain seed=1", "good seed=1", "plain seed=2", "good seed=2"));
  EXPECT_FALSE(lacks_runs(study_, results_));
}

TEST_F(TrainedStudy, ASecondLookTrainsWhatTheFirstOneLacked) {
  study_.members[1].name = "plain twin";  // of which no look decides anything: all differences are 0
  study_.metric = "train/tokens";
  study_.stops = {2};
  EXPECT_EQ(train_all(), 0);
  EXPECT_THAT(trained_, ElementsAre("plain seed=1", "plain twin seed=1", "plain seed=2", "plain twin seed=2",
                                    "plain seed=3", "plain twin seed=3"));
  EXPECT_EQ(results_.runs.size(), 6u);
  EXPECT_EQ(results_.runs.back().seed, 3);
}

TEST_F(TrainedStudy, TakesTheChoiceOfTheBestMeanOnce) {
  tune_good();
  study_.seeds = {1};
  EXPECT_EQ(train_all(), 0);
  EXPECT_THAT(trained_, ElementsAre("tuning good optimizer.lr=0.1 seed=7", "tuning good optimizer.lr=0.1 seed=8",
                                    "tuning good optimizer.lr=0.2 seed=7", "tuning good optimizer.lr=0.2 seed=8",
                                    "plain seed=1", "good optimizer.lr=0.2 seed=1"));
  EXPECT_EQ(results_.tried.size(), 2u);
  EXPECT_THAT(find_result(results_.runs, "good", 1)->choice, ElementsAre("optimizer.lr=0.2"));
  trained_.clear();
  study_.seeds = {1, 2};
  EXPECT_EQ(train_all(), 0);
  EXPECT_THAT(trained_, ElementsAre("plain seed=2", "good optimizer.lr=0.2 seed=2"));
}

TEST_F(TrainedStudy, IsRefusedWithoutAChoiceWhoseRunsAllHaveAValue) {
  tune_good();
  ends_["tuning good optimizer.lr=0.1 seed=8"] = ends_["tuning good optimizer.lr=0.2 seed=7"] = ExitStatus::guard;
  EXPECT_EQ(refusal(ExitStatus::data, [&] { train_all(); }),
            "made.toml:9:1: the tuning of member \"good\" has no choice whose runs all have a valid/loss at their end; "
            "state other values");
}

TEST_F(TrainedStudy, KeepsADivergedRunAsAResultAndLeavesOutAFailedOne) {
  study_.seeds = {1};
  ends_["good seed=1"] = ExitStatus::guard;
  ends_["plain seed=1"] = ExitStatus::bug;
  EXPECT_EQ(train_all(), int(ExitStatus::bug));
  ASSERT_EQ(results_.runs.size(), 1u);
  EXPECT_EQ(results_.runs.front().member, "good");
  EXPECT_TRUE(results_.runs.front().diverged);
}

TEST_F(TrainedStudy, LeavesOutARunThatCannotBeEvaluated) {
  study_.seeds = {1};
  study_.explored = {"eval/greedy"};
  StudyEvaluation& greedy = study_.evaluations.emplace_back();
  greedy.name = "greedy";
  greedy.suite = (file_.parent_path() / "suite.jsonl").string();
  std::ofstream(greedy.suite) << R"({"task_id": "sum/1", "prompt": "1+1", "completion": "2"})" << '\n';
  ends_["plain seed=1"] = ExitStatus::guard;
  EXPECT_NE(train_all(), 0) << "the runs have no checkpoints";
  ASSERT_EQ(results_.runs.size(), 1u);
  EXPECT_TRUE(results_.runs.front().diverged) << "nothing is to be evaluated";
  EXPECT_TRUE(lacks_runs(study_, results_));
}

TEST_F(TrainedStudy, EndsWithTheRequestToStop) {
  stop_requested_ = true;
  EXPECT_THROW(train_all(), StudyInterrupted);
}

TEST_F(TrainedStudy, HasAPilotOnlyOfSeedsThatItStates) {
  EXPECT_EQ(refusal(ExitStatus::usage, [&] { train_pilot(study_, runner()); }),
            "made.toml: --pilot: the study states no seeds of a pilot; add them, other ones than its own: pilot = [1, "
            "2, 3]");
  study_.pilot_seeds = {9};
  EXPECT_EQ(train_pilot(study_, runner()), 0);
  EXPECT_THAT(trained_, ElementsAre("plain seed=9", "good seed=9"));
}

}  // namespace
}  // namespace wmtp
