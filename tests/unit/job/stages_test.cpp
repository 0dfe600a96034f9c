// The stages of an experiment, planned from a real log: what runs, in which order, with which weights.
#include "job/stages.hpp"

#include "checkpoint/manifest.hpp"
#include "job/identity.hpp"
#include "log/run_folders.hpp"
#include "plugins/catalog.hpp"
#include "support/log_fixture.hpp"
#include "support/test_folder.hpp"

namespace wmtp {
namespace {

/// The hash of an experiment is its file's name.
class HashesByName : public ExperimentHashes {
 public:
  using ExperimentHashes::ExperimentHashes;
  const std::string& hash(const Experiment& experiment) override {
    return names_[&experiment] = experiment.file.stem().string();
  }

 private:
  std::map<const Experiment*, std::string> names_;
};

std::shared_ptr<Experiment> experiment(const std::string& name,
                                       std::map<std::string, std::shared_ptr<const Experiment>> stages = {}) {
  auto made = std::make_shared<Experiment>();
  made->file = "/experiments/" + name + ".toml";
  made->stages = std::move(stages);
  return made;
}

using Words = std::vector<std::string>;

class StagesTest : public LogTest {
 protected:
  int64_t logged(const std::string& hash, ExitStatus status, bool with_checkpoint = false) const {
    RunStart one = start(hash);
    one.config_hash = hash;
    RunLog log(file_, one);
    if (status == ExitStatus::done) {
      Manifest manifest;
      manifest.kind = ManifestKind::model;
      std::filesystem::create_directories(model_in(log.run_folder()));
      write_manifest(model_in(log.run_folder()), manifest);
    }
    if (with_checkpoint) test::save_checkpoint(log.run_folder(), 3);
    log.end(status);
    return log.run_id();
  }
  std::vector<RunPlan> planned(const Experiment& experiment, Resume resume = Resume::no) {
    return plan_run(experiment, hashes_, {resume, ""});
  }
  static Words files(const std::vector<RunPlan>& runs) {
    Words files;
    for (const RunPlan& run : runs) files.push_back((run.reused_run > 0 ? "reused " : "") + run.file);
    return files;
  }

  Catalog catalog_{{}};
  HashesByName hashes_{catalog_, file_};
  std::shared_ptr<const Experiment> base_ = experiment("base"), middle_ = experiment("middle", {{"model", base_}});
  std::shared_ptr<const Experiment> top_ =
      experiment("top", {{"model", middle_}, {"reference", base_}, {"value", middle_}});
};

TEST_F(StagesTest, RunDeepestFirstAndEachOnce) {
  const auto runs = planned(*top_);
  EXPECT_EQ(files(runs), (Words{"base.toml", "middle.toml", "top.toml"}));
  EXPECT_EQ(runs[0].path, (Words{"model", "model"}));
  EXPECT_EQ(runs[1].path, (Words{"model"}));
  EXPECT_EQ(stage_title(runs[1]), "model and value: middle.toml");
  EXPECT_TRUE(runs[2].path.empty());
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(experiment_at(*top_, runs[i].path).file.filename(), runs[i].file);
}

TEST_F(StagesTest, WithAFinishedRunAreReusedAndNeedNoStagesOfTheirOwn) {
  const int64_t id = logged("middle", ExitStatus::done);
  const auto stages = plan_stages(*top_, hashes_, ResumeRule());
  EXPECT_EQ(files(stages), (Words{"reused middle.toml", "base.toml"}));
  EXPECT_EQ(stages[0].reused_run, id);
  EXPECT_EQ(stages[1].path, (Words{"reference"}));
}

TEST_F(StagesTest, ResumeWhereTheyEnded) {
  const int64_t id = logged("base", ExitStatus::interrupted, /*with_checkpoint=*/true);
  const int64_t middle = logged("middle", ExitStatus::interrupted);
  const auto runs = planned(*top_, Resume::must);
  EXPECT_EQ(runs[0].from.run_id, id);
  EXPECT_EQ(runs[0].from.folder.filename(), checkpoint_name(3));
  EXPECT_EQ(runs[1].from.run_id, middle) << "it is started again";
  EXPECT_TRUE(runs[1].from.folder.empty());
  EXPECT_EQ(runs[2].from.run_id, 0);
  EXPECT_EQ(planned(*top_)[0].from.run_id, 0) << "without --resume";
}

TEST_F(StagesTest, ResumeMustIsRefusedWhereNothingWasBegun) {
  const auto must = [&] { planned(*top_, Resume::must); };
  EXPECT_TRUE(holds(refusal(ExitStatus::data, must), "no unfinished run of this experiment"));
  logged("top", ExitStatus::interrupted);
  EXPECT_TRUE(holds(refusal(ExitStatus::data, must), "with an intact checkpoint"));
}

TEST_F(StagesTest, ResumeStartsContinuesOrFindsAllDone) {
  const auto own = [&] { return planned(*base_, Resume::if_begun).back(); };
  EXPECT_EQ(own().from.run_id, 0);
  const int64_t begun = logged("base", ExitStatus::interrupted);
  EXPECT_EQ(own().from.run_id, begun);
  EXPECT_TRUE(own().from.folder.empty());
  const int64_t saved = logged("base", ExitStatus::interrupted, /*with_checkpoint=*/true);
  EXPECT_EQ(own().from.run_id, saved);
  EXPECT_FALSE(own().from.folder.empty());
  const int64_t done = logged("base", ExitStatus::done);
  EXPECT_EQ(own().reused_run, done);
  EXPECT_EQ(planned(*base_, Resume::if_begun).size(), 1u);
  logged("base", ExitStatus::interrupted);
  EXPECT_EQ(own().reused_run, done) << "one without a checkpoint adds nothing to it";
  const int64_t repeated = logged("base", ExitStatus::interrupted, /*with_checkpoint=*/true);
  EXPECT_EQ(own().from.run_id, repeated) << "the newest one decides";
}

TEST_F(StagesTest, ARunThatTookOverAndHasNoCheckpointIsContinuedFromThatOfItsParent) {
  const int64_t saved = logged("base", ExitStatus::peer, /*with_checkpoint=*/true);
  RunStart one = start("base");
  one.config_hash = "base";
  one.parent_run = saved;
  RunLog(file_, one).end(ExitStatus::peer);
  const ResumePoint from = resume_point("base", file_).value();
  EXPECT_EQ(from.run_id, saved + 1);
  EXPECT_EQ(from.folder.filename(), checkpoint_name(3));
  logged("base", ExitStatus::peer);
  EXPECT_EQ(resume_point("base", file_)->run_id, saved + 1) << "one that began anew is none of its segments";
  EXPECT_FALSE(resume_point("base", file_, {Resume::no, "9999-01-01T00:00:00Z"})) << "begun before";
}

TEST(Resume, IsWrittenAndReadByItsName) {
  for (const auto& [resume, name] : {std::pair{Resume::no, "no"}, {Resume::if_begun, "yes"}, {Resume::must, "must"}}) {
    EXPECT_EQ(Json(resume), name);
    EXPECT_EQ(Json(name).get<Resume>(), resume);
  }
  EXPECT_ANY_THROW(Json("perhaps").get<Resume>());
}

/// The hash of an experiment is its file's name and its number of steps.
class HashesBySteps : public ExperimentHashes {
 public:
  using ExperimentHashes::ExperimentHashes;
  const std::string& hash(const Experiment& experiment) override {
    return names_[&experiment] = experiment.file.stem().string() + std::to_string(experiment.train.steps);
  }

 private:
  std::map<const Experiment*, std::string> names_;
};

TEST_F(StagesTest, ExtendTheRunWithTheMostOfFewerSteps) {
  const auto finished = [&](int64_t steps, const std::string& hash) {
    RunStart one = start("long");
    one.config_hash = hash;
    one.params = {{"train.steps", steps}};
    RunLog log(file_, one);
    test::save_checkpoint(log.run_folder(), steps);
    log.end(ExitStatus::done);
    return log.run_id();
  };
  finished(3, "base3");
  const int64_t id = finished(5, "base5");
  finished(7, "another experiment");
  finished(20, "base20");
  Experiment experiment;
  experiment.file = "/experiments/base.toml";
  experiment.name = "long";
  experiment.train.steps = 10;
  HashesBySteps hashes(catalog_, file_);
  const ResumePoint from = plan_run(experiment, hashes, {Resume::must, ""}).at(0).from;
  EXPECT_EQ(from.run_id, id);
  EXPECT_EQ(from.folder.filename(), checkpoint_name(5));
  EXPECT_EQ(from.config_hash, "base5");
  EXPECT_EQ(plan_run(experiment, hashes, ResumeRule()).at(0).from.run_id, 0);
  experiment.train.steps = 3;
  EXPECT_TRUE(holds(refusal(ExitStatus::data,
                            [&] {
                              plan_run(experiment, hashes, {Resume::must, ""});
                            }),
                    "--set train.steps=N"));
}

TEST_F(StagesTest, GiveTheirModelsToTheRunsThatNeedThem) {
  logged("middle", ExitStatus::done);
  const auto sent = Json::parse(Json(planned(*top_)).dump()).get<std::vector<RunPlan>>();
  Words started;
  Stages given;
  EXPECT_EQ(run_in_order(sent,
                         [&](const RunPlan& run, const Stages& stages) {
                           started.push_back(run.file);
                           given = stages;
                           return RunResult{ExitStatus::done, "/runs/" + run.config_hash};
                         }),
            ExitStatus::done);
  EXPECT_EQ(started, (Words{"base.toml", "top.toml"}));
  ASSERT_EQ(given.size(), 3u);
  EXPECT_EQ(given["reference"].model, "/runs/base");
  EXPECT_EQ(given["reference"].config_hash, "base");
  EXPECT_EQ(given["value"].model, sent[0].model);
  EXPECT_EQ(given["model"].model, sent[0].model);
}

TEST_F(StagesTest, EndWithTheFirstThatIsNotDone) {
  int started = 0;
  const auto interrupt = [&](const RunPlan&, const Stages&) {
    ++started;
    return RunResult{ExitStatus::interrupted, {}};
  };
  EXPECT_EQ(run_in_order(planned(*top_), interrupt), ExitStatus::interrupted);
  EXPECT_EQ(started, 1);
}

}  // namespace
}  // namespace wmtp
