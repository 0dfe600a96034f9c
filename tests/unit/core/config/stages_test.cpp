// Stages: the experiment that [reference] names is loaded with its own mistakes, and leaves out what its parent holds
// out.
#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

class Stages : public ExperimentFolder {
 protected:
  const std::string parent_ = with(text_experiment, "baseline", "rho1") + "[reference]\nexperiment = \"b.toml\"\n";
};

TEST_F(Stages, AreLoadedBesideTheExperimentThatNamesThem) {
  write("b.toml", text_experiment);
  const Experiment e = load(parent_);
  ASSERT_TRUE(e.stage("reference"));
  EXPECT_EQ(e.stage("reference")->name, "words");
  EXPECT_EQ(e.stage("reference")->file, folder_ / "b.toml");
  EXPECT_FALSE(load(text_experiment).stage("reference"));
}

TEST_F(Stages, AreOneWhereTwoTablesNameTheSameFile) {
  const std::string twice = with(with(text_experiment, "\"baseline\"", "\"formula\"\nweight = \"ref\""), "dim = 64\n",
                                 "dim = 64\nexperiment = \"./b.toml\"\n") +
                            "[reference]\nexperiment = \"b.toml\"\n";
  write("b.toml", text_experiment + "stesp = 3\n");
  const std::string told = refused(twice);
  EXPECT_EQ(told.find("unknown key"), told.rfind("unknown key")) << "told twice:\n" << told;
  write("b.toml", text_experiment);
  const Experiment e = load(twice);
  ASSERT_TRUE(e.stage("model"));
  EXPECT_EQ(e.stage("model"), e.stage("reference"));
}

TEST_F(Stages, OfTheModelHaveItsShape) {
  const std::string parent = with(small, "dim = 64\n", "dim = 64\nexperiment = \"b.toml\"\n");
  write("b.toml", small);
  EXPECT_EQ(load(parent).stage("model")->name, "small");
  write("b.toml", with(small, "layers = 6\nheads = 4", "layers = 5\nheads = 2"));
  expect_in_order(refused(parent),
                  {"a.toml:6:14: the stage's model has another shape: found layers 5, heads 2, kv_heads 2",
                   "wanted 6, 4, 4 as here"});
}

TEST_F(Stages, OfValuesMayHaveAnotherShapeAndTrainAValueHead) {
  const std::string parent =
      with(small, "\"baseline\"", "\"formula\"\nweight = \"value\"") + "[value]\nexperiment = \"b.toml\"\n";
  write("b.toml", with(with(small, "\"baseline\"", "\"critic\"\nloss = \"lambda_return\""), "dim = 64", "dim = 128"));
  EXPECT_EQ(load(parent).stage("value")->model.dim, 128);
  write("b.toml", small);
  expect_in_order(refused(parent), {"a.toml:17:14: the stage trains no value head: found pipeline \"baseline\""});
}

TEST_F(Stages, OfValuesThatLearnScoresAreRefusedUnlessThePipelineReadsThem) {
  const std::string records =
      with(with(small, "vocab_size = 100\n", ""), "kind = \"random\"", "kind = \"records\"\nfiles = [\"a.jsonl\"]");
  const auto reads = [&](const std::string& weight) {
    return with(records, "\"baseline\"", "\"formula\"\nweight = \"" + weight + "\"") +
           "[value]\nexperiment = \"b.toml\"\n";
  };
  write("b.toml", with(records, "baseline", "critic"));
  expect_in_order(refused(reads("value")),
                  {"the stage's value head learns scores, which rank answers and are no expected outcomes: found "
                   "pipeline \"critic\", wanted one that learns values",
                   "loss = \"lambda_return\""});
  EXPECT_TRUE(load(reads("value score")).stage("value"));
}

TEST_F(Stages, OfTheModelAndTheReferenceKeepHeadsThatPredictTokens) {
  write("b.toml", with(small, "\"baseline\"", "\"critic\"\nloss = \"lambda_return\""));
  const char* told = "the stage leaves no head that predicts tokens: found pipeline \"critic\"";
  expect_in_order(refused(with(small, "dim = 64\n", "dim = 64\nexperiment = \"b.toml\"\n")), {"a.toml:6:14: ", told});
  expect_in_order(refused(with(small, "baseline", "rho1") + "[reference]\nexperiment = \"b.toml\"\n"),
                  {"a.toml:16:14: ", told});
  const std::string critic = with(small, "\"baseline\"", "\"critic\"\nloss = \"lambda_return\"");
  EXPECT_TRUE(load(with(critic, "dim = 64\n", "dim = 64\nexperiment = \"b.toml\"\n")).stage("model"))
      << "a critic goes on from a critic";
}

TEST_F(Stages, LeaveOutTheValidationFilesOfAllThatNeedThem) {
  write("b.toml", parent_.substr(0, parent_.find("[reference]")) +
                      "[validation]\nfiles = [\"own/*.py\"]\n[reference]\nexperiment = \"c.toml\"\n");
  write("c.toml", text_experiment + "[validation]\n");
  const Experiment e = load(parent_ + "[validation]\nfiles = [\"held/*.py\", \"/abs/x.py\"]\n");
  const std::vector<std::string> held{folder_ / "held/*.py", "/abs/x.py"};
  EXPECT_TRUE(e.data.exclude.empty());
  EXPECT_EQ(e.stage("reference")->data.exclude, held);
  ASSERT_EQ(e.stage("reference")->stage("reference")->data.exclude.size(), 3u);
  EXPECT_EQ(e.stage("reference")->stage("reference")->data.exclude[2], folder_ / "own/*.py");
}

TEST_F(Stages, LeaveOutTheShareOfEachFileThatIsHeldOutByAnyThatNeedThem) {
  const auto stage = [&](const std::string& text) { return *load(text).stage("reference"); };
  write("b.toml", parent_.substr(0, parent_.find("[reference]")) + "[reference]\nexperiment = \"c.toml\"\n");
  write("c.toml", text_experiment + "[validation]\nshare = 0.05\n");
  EXPECT_EQ(stage(parent_).data.hold_out_share, 0);
  const Experiment held = stage(parent_ + "[validation]\nshare = 0.2\n");
  EXPECT_EQ(held.data.hold_out_share, 0.2);
  EXPECT_EQ(held_out_share(*held.stage("reference")), 0.2);
  EXPECT_EQ(held.stage("reference")->validation.share, 0.05);
  expect_in_order(refused(with(parent_, "kind = \"text\"\n", "kind = \"text\"\nseparator = \"\\n--\"\n") +
                          "[validation]\nshare = 0.2\n"),
                  {"the stage splits its files at another data.separator: found \"\", wanted \"\\n--\" as here"});
}

TEST_F(Stages, HaveTheirMistakesToldWithTheirOwnFileAfterTheParents) {
  write("b.toml", text_experiment + "stesp = 3\n");
  const std::string told = refused(parent_ + "[train2]\n");
  expect_in_order(told, {"a.toml:", "unknown table [train2]", "b.toml:19:1: unknown key \"stesp\" in [train]"});
}

TEST_F(Stages, AreRefusedWhereTheyAreMissing) {
  expect_in_order(refused(parent_), {"a.toml:20:14: b.toml: no such file", "    experiment = \"b.toml\"\n", "^"});
}

TEST_F(Stages, MayNotNeedThemselves) {
  write("b.toml", with(parent_, "b.toml", "a.toml"));
  expect_in_order(refused(parent_), {"b.toml:20:14: a stage that needs itself: a.toml > b.toml > a.toml"});
  expect_in_order(refused(with(parent_, "b.toml", "./a.toml")), {"a.toml > a.toml"});
}

TEST_F(Stages, ShareTheTokenizerWithTheirParent) {
  write("b.toml", with(text_experiment, "vocab_size = 512", "vocab_size = 300"));
  expect_in_order(refused(parent_), {"a.toml:20:14: the stage has another tokenizer: found bpe with 300 tokens"});
  write("b.toml", with(text_experiment, "files = [\"corpus/**.py\"]\nvocab", "files = [\"other/**.py\"]\nvocab"));
  expect_in_order(refused(parent_), {"the stage has another tokenizer"});
  write("b.toml", with(text_experiment, "files = [\"corpus/**.py\"]\nvocab", "files = [\"./corpus/**.py\"]\nvocab"));
  EXPECT_NO_THROW(load(parent_));
}

TEST_F(Stages, ShareTheVocabularyWhereThereIsNoTokenizer) {
  const std::string rho1 = with(small, "baseline", "rho1") + "[reference]\nexperiment = \"b.toml\"\n";
  write("b.toml", small);
  EXPECT_NO_THROW(load(rho1));
  write("b.toml", with(small, "vocab_size = 100", "vocab_size = 101"));
  expect_in_order(refused(rho1), {"the stage has 101 tokens, wanted vocab_size 100"});
}

TEST_F(Stages, TakeSequencesAsLongAsTheirParents) {
  write("b.toml", with(text_experiment, "sequence_length = 32", "sequence_length = 16"));
  expect_in_order(refused(parent_),
                  {"a sequence longer than the stage's model: found sequence_length 32, wanted at most 16"});
}

TEST_F(Stages, FailWithStatusThreeWhenOnlyTheirPluginDoes) {
  write("b.toml", with(text_experiment, "baseline", "absent"));
  expect_in_order(refused(parent_, {}, ExitStatus::plugin), {"b.toml:3:10: no pipeline \"absent\""});
}

}  // namespace
}  // namespace wmtp
