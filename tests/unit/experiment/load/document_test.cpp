// Experiments that extend other files.
#include "experiment/load/document.hpp"

#include "experiment/load/sweep.hpp"
#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

class Extends : public ExperimentFolder {
 protected:
  Extends() { std::filesystem::create_directory(folder_ / "bases"); }

  /// The origins, without the folder's name.
  std::string origin(const Experiment& e, const std::string& key) const {
    const std::string found = e.origins.at(key), prefix = folder_.string() + "/";
    return found.starts_with(prefix) ? found.substr(prefix.size()) : found;
  }
};

TEST_F(Extends, MergesTablesAndReplacesOtherValues) {
  write("base.toml", small + "[optimizer]\nlr = 0.5\nbetas = [0.1, 0.2]\n");
  const Experiment e =
      load("extends = \"base.toml\"\nname = \"own\"\n[train]\nsteps = 20\n[optimizer]\nbetas = [0, 0]\n",
           {"train.batch_size=7"});
  EXPECT_EQ(e.name, "own");
  EXPECT_EQ(e.train.steps, 20);
  EXPECT_EQ(e.train.sequence_length, 32);
  EXPECT_EQ(e.train.batch_size, 7);
  EXPECT_EQ(e.optimizer.lr, 0.5);
  EXPECT_EQ(e.optimizer.beta2, 0);
  EXPECT_EQ(e.model.dim, 64);
}

TEST_F(Extends, ReplacesAKeyByItsAlternative) {
  write("base.toml", text_experiment);
  const Experiment e = load("extends = \"base.toml\"\n[train]\nepochs = 2\n");
  EXPECT_EQ(e.train.steps, 0);
  EXPECT_EQ(e.train.epochs, 2);
  EXPECT_EQ(load("extends = \"base.toml\"\n[train]\nepochs = 2\n", {"train.steps=3"}).train.epochs, 0);
}

TEST_F(Extends, HasTheHashAndTextOfTheMergedExperiment) {
  write("base.toml", small);
  const Experiment merged = load("extends = \"base.toml\"\n[train]\nsteps = 20\n");
  const Experiment plain = load(with(small, "steps = 10", "steps = 20"));
  EXPECT_EQ(to_toml(merged), to_toml(plain));
  EXPECT_EQ(config_hash(merged, {}), config_hash(plain, {}));
}

TEST_F(Extends, FollowsChainsAcrossFolders) {
  write("bases/words.toml", text_experiment + "[model.rope_scaling]\nrope_type = \"linear\"\nfactor = 4\n");
  write("bases/middle.toml", "extends = \"words.toml\"\n[data]\nexclude = [\"../x.py\", \"/y.py\"]\n");
  const Experiment e = load("extends = \"bases/middle.toml\"\n[model.rope_scaling]\nfactor = 8\n");
  EXPECT_EQ(e.resolve(e.data.files[0]), folder_ / "bases/corpus/**.py");
  EXPECT_EQ(e.resolve(e.data.exclude[0]), folder_ / "x.py");
  EXPECT_EQ(e.data.exclude[1], "/y.py");
  EXPECT_EQ(e.model.rope_scaling->factor, 8);
  EXPECT_EQ(e.model.rope_scaling->rope_type, RopeType::linear);
}

TEST_F(Extends, KeepsRunsOfTheLogAndFindsStagesBesideTheBase) {
  write("bases/critic.toml", with(text_experiment, "\"baseline\"", "\"critic\"\nloss = \"lambda_return\""));
  write("bases/base.toml", with(with(text_experiment, "\"baseline\"", "\"formula\"\nweight = \"value\""), "dim = 64",
                                "dim = 64\nweights = \"run:b\"") +
                               "[value]\nexperiment = \"critic.toml\"\n");
  const Experiment e = load("extends = \"bases/base.toml\"\n[pipeline]\nweight = \"value * 2\"\n");
  EXPECT_EQ(e.model.weights, "run:b");
  EXPECT_EQ(e.stage("value")->file, folder_ / "bases/critic.toml");
}

TEST_F(Extends, AppliesToStages) {
  write("base.toml", text_experiment);
  write("b.toml", "extends = \"base.toml\"\nname = \"stage\"\n");
  const Experiment e =
      load("extends = \"base.toml\"\n[pipeline]\nplugin = \"rho1\"\n[reference]\nexperiment = \"b.toml\"\n");
  EXPECT_EQ(e.stage("reference")->name, "stage");
}

TEST_F(Extends, InheritsTheListsOfASweepWithTheirPaths) {
  write("bases/base.toml", small + "[sweep]\nseed = [1, 2]\nmodel.weights = [\"w\", \"run:b\"]\n");
  SourceTexts texts;
  const auto file = write("sweep.toml", "extends = \"bases/base.toml\"\n[sweep]\nseed = [3]\n");
  const auto members = read_sweep(file, {}, texts);
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].overrides,
            (std::vector<std::string>{"seed=3", "model.weights=\"" + (folder_ / "bases/w").string() + "\""}));
  EXPECT_EQ(members[1].overrides[1], "model.weights=\"run:b\"");
}

TEST_F(Extends, NamesTheFileAndLineThatStatedAValue) {
  write("base.toml", with(small, "steps = 10", "steps = 0") + "[optimizer]\nlr = \"fast\"\n");
  expect_in_order(refused("extends = \"base.toml\"\n[model]\nlayres = 3\n"),
                  {"a.toml:3:1: unknown key \"layres\"", "base.toml:12:9: [train] steps: found the integer 0",
                   "base.toml:16:6: [optimizer] lr: found the string \"fast\""});
  write("base.toml", "name = ");
  expect_in_order(refused("extends = \"base.toml\"\n"), {"base.toml:1:8: invalid TOML"});
}

TEST_F(Extends, RefusesACycleWithItsFiles) {
  write("b.toml", "extends = \"./c.toml\"\n");
  write("c.toml", "# again\nextends = \"b.toml\"\n");
  expect_in_order(refused("extends = \"b.toml\"\n"),
                  {"c.toml:2:11: the files extend each other in a cycle: b.toml > c.toml > b.toml"});
  expect_in_order(refused("extends = \"a.toml\"\n"), {"a.toml:1:11:", "in a cycle: a.toml > a.toml"});
}

TEST_F(Extends, RefusesAFileThatIsNotThere) {
  expect_in_order(refused("extends = \"b.toml\"\n"), {"a.toml:1:11: ", "b.toml: no such file"});
  expect_in_order(refused("extends = [\"b.toml\"]\n"),
                  {"a.toml:1:11: extends: found a list", "wanted a non-empty string"});
  expect_in_order(refused("extends = \"\"\n"), {"a.toml:1:11: extends: "});
  expect_in_order(refused(small, {"extends=b.toml"}), {"\"extends\" can be set only in a file"});
}

TEST_F(Extends, TellsWhereEachValueComesFrom) {
  write("bases/base.toml", small);
  const Experiment e = load("extends = \"bases/base.toml\"\n[optimizer]\nlr = 1\n", {"seed=3"});
  EXPECT_EQ(origin(e, "optimizer.lr"), "a.toml:3");
  EXPECT_EQ(origin(e, "train.steps"), "bases/base.toml:12");
  EXPECT_EQ(origin(e, "seed"), "command line");
  const std::string text = to_toml_with_origins(e);
  expect_in_order(text, {"seed = 3  # command line\n", "/bases/base.toml:5\n", "kv_heads = 4  # default\n",
                         "lr = 1.0  # ", "a.toml:3\n"});
  const Experiment again = load_experiment({write("again.toml", text), {}, known_plugin, {}, asked_plugin});
  EXPECT_EQ(to_toml(again), to_toml(e)) << "the comments change no value";
}

}  // namespace
}  // namespace wmtp
