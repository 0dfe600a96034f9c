#include "experiment/difficulty.hpp"
#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

using RecordsConfig = ExperimentFolder;

const std::string head =
    "name = \"a\"\n[pipeline]\nplugin = \"baseline\"\n[model]\ndim = 64\nlayers = 4\nheads = 4\n"
    "[train]\nsteps = 2\nbatch_size = 2\nsequence_length = 64\n";
const std::string data = "[data]\nkind = \"records\"\nfiles = [\"a.jsonl\"]\n";

TEST_F(RecordsConfig, HaveDefaultsAndTheTokenizersVocabulary) {
  const Experiment e = load(head + data);
  EXPECT_EQ(e.data.select, AnswerSelection::all);
  EXPECT_EQ(e.data.prompt_template, "") << "by the format";
  EXPECT_EQ(e.data.max_pairs_per_problem, 50);
  EXPECT_EQ(e.data.length_bins, (std::vector<double>{100, 150, 200, 300, 500, 1000, 2000}));
  EXPECT_EQ(e.model.vocab_size, 258);
  EXPECT_FALSE(e.data.difficulty.given);
}

TEST_F(RecordsConfig, AreReadBackAsTheyArePrinted) {
  const Experiment e = load(head + data + "select = \"correct\"\ntemplate = \"plain\"\n" +
                            "[data.difficulty]\nbins = [\"1-5\", \"6-10\"]\nweights = [0.5, 3]\n[validation]\n");
  EXPECT_EQ(e.data.difficulty.end_weights, (std::vector<double>{0.5, 3}));
  const Experiment again = load(to_toml(e));
  EXPECT_EQ(to_toml(again), to_toml(e));
  EXPECT_EQ(again.data.difficulty, e.data.difficulty);
  EXPECT_EQ(config_hash(again, {}), config_hash(e, {}));
  const Experiment pairs = load(with(head, "baseline", "critic") + data + "length_bins = [10, 20]\n");
  EXPECT_EQ(load(to_toml(pairs)).data.length_bins, (std::vector<double>{10, 20}));
}

TEST_F(RecordsConfig, AreGeneratedInsteadOfReadFromFiles) {
  const Experiment e = load(head + "[data]\nkind = \"records\"\n[data.arithmetic]\nproblems = 10\n");
  EXPECT_TRUE(e.data.arithmetic.given);
  EXPECT_EQ(to_toml(load(to_toml(e))), to_toml(e));
  EXPECT_NE(refused(head + data + "[data.arithmetic]\n").find("found both files and [data.arithmetic]"),
            std::string::npos);
  EXPECT_NE(refused(head + "[data]\nkind = \"records\"\n").find("[data] lacks files"), std::string::npos);
  EXPECT_NE(refused(head + "[data]\nkind = \"records\"\n[data.arithmetic]\nmin_operations = 6\n")
                .find("wanted at most max_operations = 5"),
            std::string::npos);
}

TEST_F(RecordsConfig, RefuseKeysOfOtherKindsAndViceVersa) {
  EXPECT_NE(refused(head + data + "dtype = \"uint16\"\n").find("dtype does not apply to data of kind \"records\""),
            std::string::npos);
  EXPECT_NE(refused(head + "[data]\nkind = \"text\"\nfiles = [\"a\"]\nselect = \"all\"\n")
                .find("select does not apply to data of kind \"text\""),
            std::string::npos);
  EXPECT_NE(refused(head + data + "select = \"right\"\n").find("one of \"all\" and \"correct\""), std::string::npos);
}

TEST_F(RecordsConfig, RefusePackingWhereASequenceMustBeOneRecord) {
  const std::string packed = head + data + "packing = true\n";
  EXPECT_TRUE(load(packed).data.packing);
  EXPECT_NE(refused(packed + "[data.difficulty]\nbins = [\"1-5\"]\n").find("found packing and [data.difficulty]"),
            std::string::npos);
  EXPECT_NE(refused(head + "[data]\nkind = \"random\"\npacking = true\n").find("packing does not apply"),
            std::string::npos);
}

TEST_F(RecordsConfig, NeedTheTokenizerOfAModelForItsChatTemplate) {
  EXPECT_NE(refused(head + data + "template = \"chat\"\n").find("set template = \"chatml\""), std::string::npos);
  EXPECT_EQ(load(head + data + "template = \"chatml\"\n").data.prompt_template, "chatml");
  const std::string with_vocabulary =
      std::string(head).replace(head.find("heads = 4\n"), 10, "heads = 4\nvocab_size = 300\n");
  const auto with = [&](const std::string& file) {
    return with_vocabulary + data + "template = \"chat\"\n[data.tokenizer]\nkind = \"file\"\nfile = \"" + file + "\"\n";
  };
  EXPECT_EQ(load(with("tokenizer.json")).data.prompt_template, "chat");
  EXPECT_NE(refused(with("tokenizer.model")).find("wanted a tokenizer.json"), std::string::npos);
}

TEST_F(RecordsConfig, RefuseMalformedAndOverlappingBinsAtTheirColumn) {
  const std::string message =
      refused(head + data +
              "[data.difficulty]\nbins = [\"1-5\", \"5-9\", \"3\", \"9-7\", \" 1-2\", \"20-30\"]\nweights = [1]\n");
  expect_in_order(message, {"a.toml:16:16: bin \"5-9\" overlaps \"1-5\"", "a.toml:16:23: found the bin \"3\"",
                            "wanted a closed range such as \"6-10\"", "a.toml:16:28: found the bin \"9-7\"",
                            "a.toml:16:35: found the bin \" 1-2\"", "found 1 weights for 6 bins"});
}

TEST_F(RecordsConfig, RefuseWeightsThatAreAllZero) {
  const std::string bins = head + data + "[data.difficulty]\nbins = [\"1-5\", \"6-9\"]\n";
  EXPECT_NE(refused(bins + "weights = [0, 0]\n").find("weights are all 0"), std::string::npos);
  EXPECT_NE(refused(bins + "weights = [1, 1]\nend_weights = [0, 0]\n").find("end_weights are all 0"),
            std::string::npos);
  EXPECT_NE(refused(bins + "weights = [1, -1]\n").find("a.toml:17:15"), std::string::npos);
  EXPECT_NE(refused(bins).find("lacks weights"), std::string::npos);
  EXPECT_NE(refused(head + data + "order = \"sequential\"\n[data.difficulty]\nbins = [\"1-5\"]\nweights = [1]\n")
                .find("does not apply to [data.difficulty]"),
            std::string::npos);
}

TEST_F(RecordsConfig, RefuseLengthBinsThatAreNotAscending) {
  EXPECT_NE(refused(head + data + "length_bins = [10, 20, 20]\n").find("are not ascending: found 20 after 20"),
            std::string::npos);
  EXPECT_NE(refused(head + data + "length_bins = [10.5]\n").find("an integer number of tokens"), std::string::npos);
}

TEST_F(RecordsConfig, PassHeldOutProblemsToTheirStages) {
  const std::string pipeline = "[pipeline]\nplugin = \"rho1\"\n[reference]\nexperiment = \"stage.toml\"\n";
  std::string parent = head + data;
  parent.replace(parent.find("[pipeline]"), std::string("[pipeline]\nplugin = \"baseline\"\n").size(), pipeline);
  write("stage.toml", head + data);
  const auto stage = [&](const std::string& text) { return *load(text).stage("reference"); };
  EXPECT_FALSE(stage(parent).data.hold_out_problems);
  const Experiment by_problem = stage(parent + "[validation]\n");
  EXPECT_TRUE(by_problem.data.hold_out_problems);
  EXPECT_NE(config_hash(by_problem, {}), config_hash(stage(parent), {}));
  const Experiment by_file = stage(parent + "[validation]\nfiles = [\"b.jsonl\"]\n");
  EXPECT_EQ(by_file.data.hold_out, (std::vector<std::string>{(folder_ / "b.jsonl").string()}));
  EXPECT_FALSE(by_file.data.hold_out_problems);
}

TEST(DifficultyRange, IsTwoWholeNumbers) {
  ASSERT_TRUE(parse_difficulty_range("6-10"));
  EXPECT_TRUE(parse_difficulty_range("6-10")->holds(10));
  EXPECT_FALSE(parse_difficulty_range("6-10")->holds(11));
  for (const auto* bad : {"", "-", "6", "6-", "-6", "6-5", "a-b", "1-2-3", "1 - 2", "1-99999999999"})
    EXPECT_FALSE(parse_difficulty_range(bad)) << bad;
}

}  // namespace
}  // namespace wmtp
