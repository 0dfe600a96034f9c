#include "experiment/load/sweep.hpp"

#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

class Sweep : public ExperimentFolder {
 protected:
  std::vector<SweepMember> members(const std::string& sweep, const std::vector<std::string>& overrides = {}) {
    std::ofstream(folder_ / "sweep.toml") << (sweep[0] == '[' ? small + sweep : sweep + small);
    SourceTexts texts;
    return read_sweep(folder_ / "sweep.toml", overrides, texts);
  }
  std::string message(const std::string& sweep, const std::vector<std::string>& overrides = {}) {
    return test::refusal(ExitStatus::usage, [&] { members(sweep, overrides); });
  }
};

using Overrides = std::vector<std::string>;

TEST_F(Sweep, HasAllCombinationsWithTheFirstKeySlowest) {
  const auto found = members("[sweep]\noptimizer.lr = [0.001, 3e-4]\nseed = [1, 2]\n");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].overrides, (Overrides{"optimizer.lr=0.001", "seed=1"}));
  EXPECT_EQ(found[1].overrides, (Overrides{"optimizer.lr=0.001", "seed=2"}));
  EXPECT_EQ(found[2].overrides[0], "optimizer.lr=0.0003");
  EXPECT_EQ(found[0].suffix, "-lr-0.001");
  EXPECT_EQ(found[0].suffix, found[1].suffix) << "no name contains the seed";
}

TEST_F(Sweep, NumbersMembersWhoseNamesWouldBeEqual) {
  const auto found = members("[sweep]\npipeline.weight = [\"ce > 1\", \"ce < 1\", \"ce\"]\nseed = [1, 2]\n");
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(found[0].suffix, "-weight-ce1");
  EXPECT_EQ(found[1].suffix, "-weight-ce1") << "another seed";
  EXPECT_EQ(found[2].suffix, "-weight-ce1-2");
  EXPECT_EQ(found[3].suffix, "-weight-ce1-2");
  EXPECT_EQ(found[4].suffix, "-weight-ce");
  const auto named = members(
      "[sweep]\n[[sweep.members]]\nname = \"a\"\nmodel.dim = 32\n[[sweep.members]]\n"
      "name = \"b\"\nmodel.dim = 64\n");
  EXPECT_EQ(named[0].suffix + named[1].suffix, "");
}

TEST_F(Sweep, AcceptsValuesOfEveryKind) {
  const auto found = members(
      "[sweep]\n\"model.heads\" = [2]\npipeline = {plugin = [\"baseline\"]}\noptimizer.betas = [[0.9, 0.95]]\n"
      "optimizer.decay_norms = [true]\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].overrides, (Overrides{"model.heads=2", "pipeline.plugin=\"baseline\"",
                                           "optimizer.betas=[0.9, 0.95]", "optimizer.decay_norms=true"}));
  const Experiment e = load(small, found[0].overrides);
  EXPECT_EQ(e.model.heads, 2);
  EXPECT_EQ(e.optimizer.beta2, 0.95);
}

TEST_F(Sweep, CombinesTablesOfKeysThatAreSetTogether) {
  const auto found = members(
      "[sweep]\nseed = [1, 2]\n[[sweep.members]]\nmodel.dim = 32\noptimizer.lr = 1.0\n[[sweep.members]]\nmodel.dim = "
      "64\n");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[2].overrides, (Overrides{"seed=2", "model.dim=32", "optimizer.lr=1.0"}));
  EXPECT_EQ(found[3].overrides, (Overrides{"seed=2", "model.dim=64"}));
}

TEST_F(Sweep, NamesRunsOfAMemberAsItSays) {
  const auto found = members(
      "[sweep]\noptimizer.lr = [1.0, 2.0]\n[[sweep.members]]\nname = \"plain\"\nmodel.dim = 32\n[[sweep.members]]\n"
      "model.dim = 64\n");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].overrides, (Overrides{"optimizer.lr=1.0", "name=\"plain\"", "model.dim=32"}));
  EXPECT_EQ(found[0].suffix, "-lr-1.0") << "name plain-lr-1.0";
  EXPECT_EQ(found[1].suffix, "-lr-1.0-dim-64");
  EXPECT_EQ(members("[[sweep.members]]\nname = \"plain\"\n")[0].suffix, "");
}

TEST_F(Sweep, IsEmptyWithoutTheTable) { EXPECT_TRUE(members("").empty()); }

TEST_F(Sweep, TakesListsFromOverrides) {
  const auto replaced =
      members("[sweep]\noptimizer.lr = [0.001, 3e-4]\nseed = [1, 2]\n", {"sweep.seed=[7]", "train.steps=3"});
  ASSERT_EQ(replaced.size(), 2u);
  EXPECT_EQ(replaced[1].overrides, (Overrides{"optimizer.lr=0.0003", "seed=7"}));
  const auto added = members("", {"sweep.optimizer.lr=[0.5]", "sweep.seed=[1, 2]"});
  ASSERT_EQ(added.size(), 2u);
  EXPECT_EQ(added[1].overrides, (Overrides{"optimizer.lr=0.5", "seed=2"}));
  expect_in_order(message("", {"sweep.seed=3"}), {"--set", "[sweep] seed: wanted a non-empty list"});
}

TEST_F(Sweep, ReportsAllErrorsAtTheirPlaces) {
  expect_in_order(
      message("[sweep]\nseed = 3\noptimizer.lr = []\nmodel = {dim = [{}]}\n"),
      {"sweep.toml:16:1: [sweep] seed: wanted a non-empty list", "sweep.toml:17:", "optimizer.lr", "found a table"});
  expect_in_order(message("[[sweep.members]]\n"), {"wanted a table with at least one key"});
  std::string many = "[sweep]\n";
  for (const char* key : {"a", "b", "c"}) many += std::string(key) + " = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\n";
  expect_in_order(message(many), {"more than 1,000 members"});
  expect_in_order(message("sweep = 3\n"), {"\"sweep\""});
}

TEST_F(Sweep, RefusesOneValueTwice) {
  expect_in_order(
      message("[sweep]\nseed = [1, 2, 1]\noptimizer.lr = [1e-3, 0.001]\ntrain.steps = [1, 1.0]\n"),
      {"sweep.toml:16:15: [sweep] seed: found 1 twice", "sweep.toml:17:23: [sweep] optimizer.lr: found 0.001",
       "sweep.toml:18:19: [sweep] train.steps: found 1.0 twice", "remove one"});
  EXPECT_EQ(members("[sweep]\npipeline.plugin = [\"a\", \"b\"]\nmodel.x = [[1, 2], [2, 1], [1]]\n").size(), 6u);
  expect_in_order(message("[sweep]\nmodel.x = [[1, 2], [1, 2]]\n"), {"[sweep] model.x: found [1, 2] twice"});
  expect_in_order(message("[[sweep.members]]\nseed = 1\nmodel.dim = 8\n[[sweep.members]]\nmodel = {dim = 8}\nseed = 1\n"
                          "[[sweep.members]]\nseed = 1\n"),
                  {"sweep.toml:18:", "[[sweep.members]]: found the values of the table at", "sweep.toml:16", "again"});
}

TEST_F(Sweep, RefusesTwoListsThatSetOneKey) {
  const std::string shown = message(
      "[sweep]\nseed = [1, 2]\npipeline.keep = [0.5, 0.6]\n[[sweep.members]]\noptimizer.lr = 1e-3\n"
      "[[sweep.members]]\nseed = 3\npipeline.keep.from = 1\n");
  expect_in_order(shown, {"sweep.toml:21:1: [[sweep.members]] seed: [sweep] seed at", "sweep.toml:16 sets it too",
                          "sweep.toml:22:", "[[sweep.members]] pipeline.keep.from: [sweep] pipeline.keep at",
                          "sweep.toml:17 sets it too"});
  EXPECT_EQ(members("[sweep]\nmodel.dim = [1, 2]\nmodel.dim_2 = [1, 2]\n").size(), 4u) << "no part of a name";
}

TEST_F(Sweep, RefusesValuesOfTheCommandLineThatMembersWouldReplace) {
  const std::string lists = "[sweep]\noptimizer.lr = [1e-3, 2e-3]\nseed = [1, 2]\n";
  expect_in_order(message(lists, {"optimizer.lr=5e-4", "seed=3", "sweep.seed=[4]"}),
                  {"--set optimizer.lr=5e-4: [sweep] optimizer.lr at", "sweep.toml:16 varies this key",
                   "--set 'sweep.optimizer.lr=[0.0005]'; or change the file",
                   "--set seed=3: [sweep] seed at command line", "--set 'sweep.seed=[3]'"});
  const std::string tables = "[[sweep.members]]\npipeline.keep = 0.5\n[[sweep.members]]\npipeline.plugin = \"focal\"\n";
  for (const char* set : {"pipeline.keep=0.4", "pipeline.keep.from=0.4", "pipeline={plugin=\"x\",keep=0.4}"})
    expect_in_order(message(tables, {set}), {"--set", "[[sweep.members]] pipeline.keep at",
                                             "sweep.toml:16 varies this key", "change it there"});
  EXPECT_EQ(members(tables, {"pipeline.gamma=2"}).size(), 2u);
}

TEST_F(Sweep, IsIgnoredByTheExperimentAndRefusedInAStage) {
  EXPECT_EQ(load(small + "[sweep]\nno.such = [1]\n").seed, 0);
  std::ofstream(folder_ / "stage.toml") << small << "[sweep]\nseed = [1]\n";
  expect_in_order(refused(small + "[reference]\nexperiment = \"stage.toml\"\n"),
                  {"stage.toml:", "found [sweep] in a stage"});
}

}  // namespace
}  // namespace wmtp
