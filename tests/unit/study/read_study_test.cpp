#include "study/read_study.hpp"

#include <gmock/gmock.h>

#include "study/members.hpp"
#include "support/data_fixture.hpp"
#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

using testing::ElementsAre;

const std::string head = "[study]\nmetric = \"valid/loss\"\nbetter = \"lower\"\nseeds = [11, 12]\n";
const std::string two_members =
    "[[study.members]]\nname = \"plain\"\nexperiment = \"a.toml\"\n"
    "[[study.members]]\nname = \"random 60%\"\nexperiment = \"b.toml\"\npipeline = {plugin = \"random\", keep = 0.6}\n";
const std::string tuned =
    "[[study.members]]\nname = \"tuned\"\nexperiment = \"a.toml\"\ntune.optimizer.lr = [1e-3, 2e-3]\n"
    "tune.model.heads = [2, 4]\n";
const std::string tuning = "[study.tuning]\nseeds = [1, 2]\nset.validation.files = [\"other.txt\"]\n";

class StudyFile : public ExperimentFolder {
 protected:
  Study read(const std::string& text) const {
    SourceTexts texts;
    return read_study(write("trial.toml", text), texts);
  }
  std::string mistakes(const std::string& text) const {
    SCOPED_TRACE(text);
    return error_of(ExitStatus::usage, [&] { read(text); });
  }
};

TEST_F(StudyFile, StatesMembersSeedsAndWhatDecides) {
  const Study study = read(head +
                           "also = [\"valid/ce_head_1\", \"valid/loss\"]\nset.train.steps = 5\n"
                           "control = \"random 60%\"\n[study.budgets]\nseconds = [\"shortest\", 60, 1.25]\n"
                           "operations = [1e15, 123456789]\n" +
                           two_members);
  EXPECT_EQ(study.name, "trial");
  EXPECT_THAT(study.metrics(), ElementsAre("valid/loss", "valid/ce_head_1"));
  EXPECT_EQ(study.members[0].control, 1u);
  EXPECT_EQ(study.comparisons(), 6) << "one member, at the end and at five budgets";
  EXPECT_EQ(title_of(study.budgets[1]), "the seconds of the seed's shortest run");
  EXPECT_EQ(title_of(study.budgets[2]), "60 seconds");
  EXPECT_EQ(title_of(study.budgets[3]), "1.25 seconds") << "budgets are told apart by their titles";
  EXPECT_EQ(title_of(study.budgets[4]), "1e+15 operations");
  EXPECT_EQ(title_of(study.budgets[5]), "123456789 operations");
  const auto runs = study_runs(study, {{}, {}});
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[1].seed, 11) << "all members of a seed come before the next seed";
  EXPECT_THAT(runs[3].how.overrides, ElementsAre("train.steps=5", "pipeline.plugin=\"random\"", "pipeline.keep=0.6",
                                                 "seed=12", "name=\"trial-random60\""));
  EXPECT_EQ(runs[3].file.filename(), "b.toml");
}

TEST_F(StudyFile, NamesAllMistakesWithTheirPlaces) {
  const std::string found = mistakes(
      "name = \"a\"\n[study]\nmetric = 3\nbeter = \"lower\"\nseeds = [1, 1, -2]\n[study.set]\nseed = 4\n"
      "[study.budgets]\ntokens = [\"longest\", 5, 5.0]\n[[study.members]]\nname = "
      "\"a|b\"\n[[study.members]]\nexperiment = "
      "\"b.toml\"\nname = \"b\"\ntune.optimizer.lr = 3\n");
  expect_in_order(
      found,
      {"trial.toml:1:1: unknown key \"name\"", "trial.toml:2:2: [study] lacks the key \"better\"",
       "trial.toml:3:10: [study] metric: found the integer 3", "trial.toml:4:1: unknown key \"beter\"",
       "did you mean \"better\"?", "trial.toml:5:13: [study] seeds: found seed 1 twice",
       "trial.toml:5:16: [study] seeds: found the integer -2", "trial.toml:7:1: [study.set]: found \"seed\"",
       "trial.toml:9:11: [study.budgets] tokens", "trial.toml:9:25: [study.budgets] tokens: 5 tokens is there twice",
       "lacks the key \"experiment\"", "trial.toml:11:8: [[study.members]] name", "wanted a list of values"});
}

TEST_F(StudyFile, RefusesAnExperimentWithOneMistake) {
  const std::string found = mistakes(small);
  expect_in_order(found, {"found no table [study]", "`wmtp-host run` trains an experiment"});
  EXPECT_EQ(found.find("unknown key"), std::string::npos);
}

TEST_F(StudyFile, StopsOnlyWhereItSays) {
  const std::string five = with(head, "[11, 12]", "[1, 2, 3, 4, 5]");
  EXPECT_THAT(read(five + "stop_at = [2, 4]\n" + two_members).stops, ElementsAre(2, 4));
  for (const char* wrong : {"[1]", "[4, 2]", "[5]", "3", "[]"})
    expect_in_order(mistakes(five + "stop_at = " + wrong + "\n" + two_members),
                    {"[study] stop_at: wanted rising numbers of seeds from 2 to 4"});
  expect_in_order(mistakes(head + "stop_at = [2]\n" + two_members), {"stop_at: wanted at least three seeds"});
}

TEST_F(StudyFile, RefusesTuningThatTouchesWhatJudges) {
  const std::string plain = "[[study.members]]\nname = \"plain\"\nexperiment = \"a.toml\"\n";
  expect_in_order(mistakes(head + plain + with(tuned, "model.heads = [2, 4]", "seed = [1, 2]")),
                  {"tune: found \"seed\", which the study states itself"});
  expect_in_order(mistakes(head + plain + tuned),
                  {"member \"tuned\" has keys to tune, but there is no [study.tuning]"});
  expect_in_order(mistakes(head + plain + tuned + "[study.tuning]\nseeds = [11]\n"),
                  {"names no other files of [validation] or [data]", "found seed 11, which is one of [study] seeds"});
  for (const char* same_files : {"validation.batches = 4", "data.order = \"sequential\""})
    expect_in_order(
        mistakes(head + plain + tuned + "[study.tuning]\nseeds = [1]\nset." + std::string(same_files) + "\n"),
        {"names no other files of [validation] or [data]"});
  expect_in_order(mistakes(head + two_members + tuning), {"no member has keys to tune"});
  expect_in_order(mistakes(head + plain + with(tuned, "[1e-3, 2e-3]", "{from = 1e-3, to = 1e-4}") + tuning),
                  {"wanted \"from\" below \"to\"", "lacks the key \"draws\""});
}

TEST_F(StudyFile, TunesWithTheValidationDataOfOtherSeeds) {
  const std::string members =
      "[[study.members]]\nname = \"plain\"\nexperiment = \"a.toml\"\n" + tuned + "[study.tuning]\nseeds = [1, 2]\n";
  const Study study = read(head + "set.validation.files = [\"{seed}/valid.txt\"]\n" + members);
  EXPECT_EQ(tuning_runs(study, 1, tuned_choices(study, 1))[0].how.overrides[0],
            "validation.files=[\"" + (folder_ / "1/valid.txt").string() + "\"]");
  for (const char* of_all_seeds : {"validation.files = [\"valid.txt\"]", "data.files = [\"{seed}/train.txt\"]"})
    expect_in_order(mistakes(head + "set." + of_all_seeds + "\n" + members),
                    {"names no other files of [validation] or [data]", "data of each seed in [study.set]"});
}

TEST_F(StudyFile, TriesTheGridOrAsManyDrawsAsStated) {
  const std::string plain = "[[study.members]]\nname = \"plain\"\nexperiment = \"a.toml\"\n";
  const Study grid = read(head + plain + tuned + tuning);
  EXPECT_THAT(tuned_choices(grid, 0), ElementsAre(TunedChoice{}));
  EXPECT_THAT(tuned_choices(grid, 1), ElementsAre(TunedChoice{"optimizer.lr=0.001", "model.heads=2"},
                                                  TunedChoice{"optimizer.lr=0.001", "model.heads=4"},
                                                  TunedChoice{"optimizer.lr=0.002", "model.heads=2"},
                                                  TunedChoice{"optimizer.lr=0.002", "model.heads=4"}));
  const auto runs = tuning_runs(grid, 1, tuned_choices(grid, 1));
  ASSERT_EQ(runs.size(), 8u);
  EXPECT_EQ(runs[1].seed, 2);
  EXPECT_EQ(runs[0].how.overrides[0], "validation.files=[\"" + (folder_ / "other.txt").string() + "\"]");

  const Study drawn =
      read(head + plain + with(tuned, "[1e-3, 2e-3]", "{from = 1e-4, to = 1e-2}") + tuning + "draws = 5\n");
  const auto choices = tuned_choices(drawn, 1);
  ASSERT_EQ(choices.size(), 5u);
  EXPECT_EQ(choices, tuned_choices(drawn, 1));
  for (const TunedChoice& choice : choices) {
    const double rate = std::stod(choice[0].substr(choice[0].find('=') + 1));
    EXPECT_TRUE(rate >= 1e-4 && rate <= 1e-2) << rate;
  }
  EXPECT_NE(choices[0][0], choices[1][0]);
}

const std::string conditions =
    "set.data.files = [\"{condition}/{seed}.txt\"]\n"
    "[[study.conditions]]\nname = \"small\"\n[[study.conditions]]\nname = \"50% more\"\nmodel.dim = 48\n";

TEST_F(StudyFile, TrainsEveryMemberUnderEachCondition) {
  const Study study = read(head + conditions + two_members +
                           "[[study.members]]\nname = \"once\"\nexperiment = \"a.toml\"\nmodel.dim = 64\n"
                           "conditions = [\"50% more\"]\n");
  std::vector<std::string> names;
  for (const StudyMember& member : study.members) names.push_back(member.name);
  EXPECT_THAT(names, ElementsAre("plain, small", "random 60%, small", "plain, 50% more", "random 60%, 50% more",
                                 "once, 50% more"));
  EXPECT_EQ(study.members[1].control, 0u);
  EXPECT_EQ(study.members[4].control, 2u);
  EXPECT_EQ(study.comparisons(), 3);
  const auto runs = study_runs(study, std::vector<TunedChoice>(5));
  EXPECT_THAT(runs[4].how.overrides,
              ElementsAre("data.files=[\"" + (folder_ / "50% more/11.txt").string() + "\"]", "model.dim=48",
                          "model.dim=64", "seed=11", "name=\"trial-once50more\""));
}

TEST_F(StudyFile, TunesEveryConditionOnDataOfItsOwn) {
  const Study study = read(head + conditions + "[[study.members]]\nname = \"plain\"\nexperiment = \"a.toml\"\n" +
                           tuned + with(tuning, "other.txt", "{condition}/{seed}.txt"));
  const auto last = tuning_runs(study, 3, tuned_choices(study, 3)).back();
  EXPECT_EQ(last.how.overrides[2], "validation.files=[\"" + (folder_ / "50% more/2.txt").string() + "\"]");
}

TEST_F(StudyFile, NamesMistakesOfConditions) {
  expect_in_order(mistakes(head + with(conditions, "50% more", "small") + two_members),
                  {"[[study.conditions]]: found the name \"small\" twice"});
  expect_in_order(mistakes(head + with(conditions, "50% more", "a/b") + two_members),
                  {"[[study.conditions]]: wanted a name in letters, digits, spaces"});
  expect_in_order(mistakes(head + two_members + "conditions = [\"small\"]\n"),
                  {"[[study.members]] conditions: the study has no [[study.conditions]]"});
  expect_in_order(mistakes(head + conditions + two_members + "conditions = [\"smal\"]\n"),
                  {"[[study.members]] conditions", "did you mean \"small\"?"});
  expect_in_order(
      mistakes(head + conditions + with(two_members, "\"a.toml\"\n", "\"a.toml\"\nconditions = [\"small\"]\n")),
      {"the control \"plain\" has \"conditions\"", "remove them"});
}

const std::string evaluated =
    "[study]\nmetric = \"eval/greedy/degree 1\"\nbetter = \"higher\"\nseeds = [11, 12]\n"
    "set.data.files = [\"graphs/{seed}/train.jsonl\"]\n"
    "[study.evaluations.greedy]\nsuite = \"graphs/{seed}/test.jsonl\"\njudge = \"judge.py\"\nmax_tokens = 30\n";

TEST_F(StudyFile, GivesEachSeedFilesOfItsOwn) {
  const auto runs = study_runs(read(evaluated + two_members), {{}, {}});
  EXPECT_EQ(runs[0].how.overrides[0], "data.files=[\"" + (folder_ / "graphs/11/train.jsonl").string() + "\"]");
  EXPECT_EQ(runs[2].how.overrides[0], "data.files=[\"" + (folder_ / "graphs/12/train.jsonl").string() + "\"]");
  EXPECT_EQ(filled_in("{seed}-{seed}/{sed} {condition}", 7, "50%"), "7-7/{sed} 50%");
}

TEST_F(StudyFile, StatesEvaluationsOfFinishedModels) {
  const Study study = read(evaluated + two_members);
  ASSERT_EQ(study.evaluations.size(), 1u);
  const StudyEvaluation& of = study.evaluations[0];
  EXPECT_EQ(of.name, "greedy");
  EXPECT_EQ(of.suite, (folder_ / "graphs/{seed}/test.jsonl").string());
  EXPECT_EQ(of.judge, (folder_ / "judge.py").string());
  EXPECT_EQ(of.temperature, 0);
  EXPECT_EQ(of.max_tokens, 30);
  EXPECT_EQ(evaluation_metric("eval/greedy/degree 1")->group, "degree 1");
  EXPECT_EQ(evaluation_metric("eval/greedy")->group, "");
  EXPECT_FALSE(evaluation_metric("valid/loss"));
}

TEST_F(StudyFile, NamesMistakesOfEvaluations) {
  expect_in_order(mistakes(with(evaluated, "eval/greedy/degree 1", "eval/gredy") + two_members),
                  {"trial.toml:2:10: found the metric \"eval/gredy\", but no [study.evaluations.gredy]",
                   "did you mean eval/greedy?", "[study.evaluations.greedy]: no metric is of it",
                   "add \"eval/greedy\" to [study] also"});
  expect_in_order(mistakes(with(evaluated, "suite", "suit") + "temperature = -1\n" + two_members),
                  {"lacks the key \"suite\"", "unknown key \"suit\"", "temperature"});
  expect_in_order(mistakes(head + "also = [\"valid/loss\", \"eval/a\"]\n" + two_members),
                  {"trial.toml:5:23: found the metric \"eval/a\"", "add the table, with a suite"});
  expect_in_order(mistakes(evaluated + "[study.budgets]\ntokens = [5]\n" + two_members),
                  {"[study.budgets]: the metric is \"eval/greedy/degree 1\", which is of finished models"});
  const std::string to_tune = two_members + tuned + "[study.tuning]\nseeds = [1]\n";
  EXPECT_THAT(read(evaluated + to_tune).tuning.seeds, ElementsAre(1)) << "the problems of another seed choose";
  expect_in_order(mistakes(with(evaluated, "suite = \"graphs/{seed}/", "suite = \"graphs/") + to_tune),
                  {"[study.tuning]: the metric is \"eval/greedy/degree 1\", whose problems would choose",
                   "give each seed problems of its own"});
}

TEST_F(StudyFile, SaysWhatChangedOfADefinition) {
  const Json then{{"seeds", {1, 2}}, {"members", {{"a", {{"keep", "0.5"}}}}}};
  const Json now{{"seeds", {1, 2, 3}}, {"members", {{"a", {{"keep", "0.5"}}}, {"b", {{"keep", "0.6"}}}}}};
  EXPECT_THAT(definition_changes(then, now),
              ElementsAre("members.b.keep: nothing then, \"0.6\" now", "seeds: [1,2] then, [1,2,3] now"));
  EXPECT_THAT(definition_changes(then, then), ElementsAre());
}

}  // namespace
}  // namespace wmtp
