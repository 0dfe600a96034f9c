// Stages: the experiments that [model], [reference] and [value] name are loaded, checked and do not train on data that
// their parents hold out.
#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

class Stages : public ExperimentFolder {
 protected:
  const std::string parent_ = with(text_experiment, "baseline", "rho1") + "[reference]\nexperiment = \"b.toml\"\n";
};

TEST_F(Stages, AreLoadedWithTheExperimentThatNamesThem) {
  write("b.toml", text_experiment);
  const Experiment e = load(parent_);
  ASSERT_TRUE(e.stage("reference"));
  EXPECT_EQ(e.stage("reference")->name, "words");
  EXPECT_EQ(e.stage("reference")->file, folder_ / "b.toml");
  EXPECT_FALSE(load(text_experiment).stage("reference"));
}

TEST_F(Stages, AreSharedByTablesThatNameTheSameFile) {
  const std::string twice = with(with(text_experiment, "\"baseline\"", "\"formula\"\nweight = \"ref\""), "dim = 64\n",
                                 "dim = 64\nexperiment = \"./b.toml\"\n") +
                            "[reference]\nexperiment = \"b.toml\"\n";
  write("b.toml", text_experiment + "stesp = 3\n");
  const std::string message = refused(twice);
  EXPECT_EQ(message.find("unknown key"), message.rfind("unknown key")) << "reported twice:\n" << message;
  write("b.toml", text_experiment);
  const Experiment e = load(twice);
  ASSERT_TRUE(e.stage("model"));
  EXPECT_EQ(e.stage("model"), e.stage("reference"));
}

TEST_F(Stages, OfTheModelRequireItsShape) {
  const std::string parent = with(small, "dim = 64\n", "dim = 64\nexperiment = \"b.toml\"\n");
  write("b.toml", small);
  EXPECT_EQ(load(parent).stage("model")->name, "small");
  write("b.toml", with(small, "layers = 6\nheads = 4", "layers = 5\nheads = 2"));
  expect_in_order(refused(parent),
                  {"a.toml:6:14: the stage's model has a different shape: found layers 5, heads 2, kv_heads 2",
                   "wanted 6, 4, 4 as in this experiment"});
  write("b.toml", with(small, "layers = 6\n", "layers = 6\nfuture_heads = \"chained\"\n"));
  expect_in_order(refused(parent), {"found future_heads \"chained\", wanted \"parallel\" as in this experiment"});
  write("b.toml", with(small, "layers = 6\n", "layers = 6\nfuture_offsets = [1, 3, 5, 7]\n"));
  expect_in_order(refused(parent), {"found future_offsets [1, 3, 5, 7], wanted [1, 2, 3, 4] as in this experiment"});
}

TEST_F(Stages, OfAReferenceHaveAsManyHeadsAsItsOwnAreRead) {
  const std::string parent = with(small, "baseline", "rho1") + "[reference]\nexperiment = \"b.toml\"\n";
  write("b.toml", with(small, "layers = 6", "layers = 3\nfuture_tokens = 1"));
  expect_in_order(refused(parent + "heads = \"own\"\n"),
                  {"a.toml:17:9: the stage's model has too few heads: found heads \"own\" for its future_tokens 1, "
                   "wanted at least 4 as in this experiment",
                   "heads = \"own\"", "choose a reference with as many heads, or set heads = \"next\""});
  EXPECT_NO_THROW(load(parent));
  EXPECT_NO_THROW(load(parent + "heads = \"next\"\n"));
  write("b.toml", small);
  EXPECT_EQ(load(parent + "heads = \"own\"\n").reference.heads, ReferenceHeads::own);
}

TEST_F(Stages, OfValuesMayHaveAnotherShapeButRequireAValueHead) {
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
                  {"the stage's value head learns scores, which rank answers but do not estimate their outcome: found "
                   "pipeline \"critic\", wanted one that learns values",
                   "loss = \"lambda_return\""});
  EXPECT_TRUE(load(reads("value score")).stage("value"));
}

TEST_F(Stages, OfTheModelAndTheReferenceRequireTokenHeads) {
  write("b.toml", with(small, "\"baseline\"", "\"critic\"\nloss = \"lambda_return\""));
  const char* message = "the stage has no head that predicts tokens: found pipeline \"critic\"";
  expect_in_order(refused(with(small, "dim = 64\n", "dim = 64\nexperiment = \"b.toml\"\n")),
                  {"a.toml:6:14: ", message});
  expect_in_order(refused(with(small, "baseline", "rho1") + "[reference]\nexperiment = \"b.toml\"\n"),
                  {"a.toml:16:14: ", message});
  const std::string critic = with(small, "\"baseline\"", "\"critic\"\nloss = \"lambda_return\"");
  EXPECT_TRUE(load(with(critic, "dim = 64\n", "dim = 64\nexperiment = \"b.toml\"\n")).stage("model"))
      << "a critic may continue a critic";
}

TEST_F(Stages, ExcludeTheValidationFilesOfTheirParents) {
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

TEST_F(Stages, ExcludeTheFilesOnWhichTheirParentsValidateByDefault) {
  write("b.toml", parent_.substr(0, parent_.find("[reference]")) + "[reference]\nexperiment = \"c.toml\"\n");
  write("c.toml", text_experiment);
  const auto exclude = [&](const std::string& validation) {
    LoadRequest request{write("a.toml", parent_ + validation), {}, known_plugin, {}, asked_plugin};
    request.default_validation = [](const Experiment& e) { return std::vector<std::string>{"/of/" + e.name}; };
    const Experiment e = load_experiment(request);
    EXPECT_EQ(e.stage("reference")->data.exclude, e.stage("reference")->stage("reference")->data.exclude);
    return e.stage("reference")->data.exclude;
  };
  EXPECT_EQ(exclude("[validation]\nevery_steps = 5\n"), std::vector<std::string>{"/of/words"});
  EXPECT_EQ(exclude("[validation]\nfiles = [\"/x\"]\n"), std::vector<std::string>{"/x"});
  EXPECT_TRUE(exclude("[validation]\nshare = 0.2\n").empty());
  EXPECT_TRUE(exclude("").empty());
}

TEST_F(Stages, OfRecordsHoldOutNoTexts) {
  const std::string records = with(with(text_experiment, "kind = \"text\"", "kind = \"records\""), "baseline", "rho1");
  write("b.toml", records + "[reference]\nexperiment = \"c.toml\"\n[validation]\nfiles = [\"/held.jsonl\"]\n");
  write("c.toml", text_experiment);
  const Experiment e = load(parent_ + "[validation]\nfiles = [\"/held.py\"]\n");
  EXPECT_TRUE(e.stage("reference")->data.hold_out.empty());
  EXPECT_EQ(e.stage("reference")->stage("reference")->data.exclude, std::vector<std::string>{"/held.py"});
}

TEST_F(Stages, ExcludeTheShareOfEachFileThatTheirParentsHoldOut) {
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
                  {"the stage has a different data.separator: found \"\", wanted \"\\n--\" as in this experiment"});
}

TEST_F(Stages, ReportTheirErrorsWithTheirFileAfterTheParents) {
  write("b.toml", text_experiment + "stesp = 3\n");
  const std::string message = refused(parent_ + "[train2]\n");
  expect_in_order(message, {"a.toml:", "unknown table [train2]", "b.toml:19:1: unknown key \"stesp\" in [train]"});
}

TEST_F(Stages, AreRefusedIfTheirFileIsMissing) {
  expect_in_order(refused(parent_), {"a.toml:20:14: b.toml: no such file", "    experiment = \"b.toml\"\n", "^"});
}

TEST_F(Stages, MayNotFormACycle) {
  write("b.toml", with(parent_, "b.toml", "a.toml"));
  expect_in_order(refused(parent_), {"b.toml:20:14: the stages form a cycle: a.toml > b.toml > a.toml"});
  expect_in_order(refused(with(parent_, "b.toml", "./a.toml")), {"a.toml > a.toml"});
}

TEST_F(Stages, RequireTheTokenizerOfTheirParent) {
  write("b.toml", with(text_experiment, "vocab_size = 512", "vocab_size = 300"));
  expect_in_order(refused(parent_), {"a.toml:20:14: the stage has a different tokenizer: found bpe with 300 tokens"});
  write("b.toml", with(text_experiment, "files = [\"corpus/**.py\"]\nvocab", "files = [\"other/**.py\"]\nvocab"));
  expect_in_order(refused(parent_), {"the stage has a different tokenizer"});
  write("b.toml", with(text_experiment, "files = [\"corpus/**.py\"]\nvocab", "files = [\"./corpus/**.py\"]\nvocab"));
  EXPECT_NO_THROW(load(parent_));
}

TEST_F(Stages, RequireTheVocabularyOfTheirParentWithoutATokenizer) {
  const std::string rho1 = with(small, "baseline", "rho1") + "[reference]\nexperiment = \"b.toml\"\n";
  write("b.toml", small);
  EXPECT_NO_THROW(load(rho1));
  write("b.toml", with(small, "vocab_size = 100", "vocab_size = 101"));
  expect_in_order(refused(rho1), {"the stage has a different vocabulary: found vocab_size 101, wanted 100"});
}

TEST_F(Stages, RequireAModelForTheSequencesOfTheirParent) {
  write("b.toml", with(text_experiment, "sequence_length = 32", "sequence_length = 16"));
  expect_in_order(
      refused(parent_),
      {"the stage's model is too short: found sequence_length 32, wanted at most the stage's max_sequence_length 16"});
}

TEST_F(Stages, FailWithThePluginStatusIfOnlyTheirPluginFails) {
  write("b.toml", with(text_experiment, "baseline", "absent"));
  expect_in_order(refused(parent_, {}, ExitStatus::plugin), {"b.toml:3:10: no pipeline \"absent\""});
}

}  // namespace
}  // namespace wmtp
