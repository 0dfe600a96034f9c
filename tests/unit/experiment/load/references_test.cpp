// [references.NAME]: more frozen models than [reference], each with all of its keys and rules.
#include "experiment/canonical.hpp"
#include "experiment/schema.hpp"
#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

class References : public ExperimentFolder {
 protected:
  static std::string weighed(const std::string& weight) {
    return with(small, "\"baseline\"", "\"formula\"\nweight = \"" + weight + "\"");
  }
  const std::string contrast_ = weighed("max(0, amateur_loss - ref)") + "[reference]\nweights = \"run:expert\"\n";
  const std::string amateur_ = "[references.amateur]\nweights = \"run:small\"\n";
};

TEST_F(References, HaveTheKeysOfTheReference) {
  const Experiment e = load(contrast_ + amateur_ +
                            "strategy = \"no_shard\"\nprecision = \"bf16\"\ncache = false\nheads = \"next\"\n"
                            "[references.amateur.model]\ndim = 128\nfuture_tokens = 1\n"
                            "[references.amateur.model.rope_scaling]\nrope_type = \"linear\"\nfactor = 2\n");
  ASSERT_EQ(e.references.size(), 1U);
  const FrozenConfig& amateur = e.references.at("amateur");
  EXPECT_TRUE(amateur.given);
  EXPECT_EQ(amateur.weights, "run:small");
  EXPECT_EQ(amateur.strategy, Strategy::no_shard);
  EXPECT_EQ(amateur.precision, Precision::bf16);
  EXPECT_FALSE(amateur.cache);
  EXPECT_EQ(amateur.heads, ReferenceHeads::next);
  ASSERT_TRUE(amateur.model);
  EXPECT_EQ(amateur.model->dim, 128);
  EXPECT_EQ(amateur.model->layers, 6) << "as in [model]";
  EXPECT_EQ(amateur.model->rope_scaling->factor, 2);
  EXPECT_FALSE(e.reference.model);
  EXPECT_EQ(load(to_toml(e)).references, e.references);
  EXPECT_EQ(to_toml(load(to_toml(e))), to_toml(e));
}

TEST_F(References, AreTablesInTheirOrder) {
  const Experiment e =
      load(weighed("amateur_loss - expert_loss") + "[references.expert]\nweights = \"run:b\"\n" + amateur_);
  std::vector<std::string> tables;
  for (const auto& [table, frozen] : frozen_tables(e)) tables.push_back(table);
  EXPECT_EQ(tables, (std::vector<std::string>{"reference", "references.amateur", "references.expert", "value"}));
  EXPECT_EQ(frozen_config(e, "references.expert").weights, "run:b");
}

TEST_F(References, ChangeTheIdentityOnlyWhereTheyAreGiven) {
  const auto hash = [&](const std::string& text) { return config_hash(load(text), {}); };
  const std::string one = weighed("max(0, 2 - ref)") + "[reference]\nweights = \"run:expert\"\n";
  EXPECT_EQ(to_toml(load(one)).find("references"), std::string::npos);
  EXPECT_EQ(hash(contrast_ + amateur_), hash(contrast_ + amateur_ + "cache = false\nheads = \"next\"\n"));
  EXPECT_NE(hash(contrast_ + amateur_), hash(contrast_ + amateur_ + "precision = \"bf16\"\n"));
  EXPECT_NE(hash(contrast_ + amateur_), hash(contrast_ + amateur_ + "[references.amateur.model]\ndim = 128\n"));
}

TEST_F(References, AreGivenIfAndOnlyIfThePipelineReadsThem) {
  expect_in_order(refused(contrast_), {"a.toml:3:10: pipeline \"formula\" reads references.amateur.loss, but the "
                                       "experiment has no [references.amateur]",
                                       "add [references.amateur] with experiment = \"amateur.toml\""});
  expect_in_order(refused(contrast_ + "[references.expert]\nweights = \"run:b\"\n"),
                  {"has no [references.amateur], only [references] expert",
                   "reads no reference \"expert\" with these options", "remove [references.expert]"});
  expect_in_order(refused(weighed("amateur_entropy * ref") + amateur_),
                  {"reads reference.loss, but there is no [reference]"});
}

TEST_F(References, NeedExactlyOneOfExperimentAndWeights) {
  expect_in_order(refused(contrast_ + "[references.amateur]\n"),
                  {"a.toml:18:13: [references.amateur] lacks experiment or weights"});
  write("b.toml", small);
  expect_in_order(refused(contrast_ + amateur_ + "experiment = \"b.toml\"\n"),
                  {"found both experiment and weights, wanted one of them"});
  EXPECT_EQ(load(contrast_ + amateur_, {"references.amateur.experiment=b.toml"}).references.at("amateur").weights, "")
      << "one replaces the other";
}

TEST_F(References, HaveNamesThatFormulasCanRead) {
  for (const std::string name :
       {"Amateur", "2nd", "reference", "policy", "value", "data", "a-b", "a_name_of_more_than_32_characters"})
    expect_in_order(refused(contrast_ + "[references." + name + "]\nweights = \"run:b\"\n"),
                    {"unknown table [references." + name + "]", "wanted [references.NAME], where NAME has at most 32"});
  expect_in_order(refused(contrast_ + "[references]\namateur = \"run:b\"\n"),
                  {"\"references.amateur\" is a table: wanted [references.amateur] followed by its keys"});
  expect_in_order(refused("references = \"run:b\"\n" + contrast_),
                  {"\"references\" is a table: wanted [references] followed by its keys"});
}

TEST_F(References, AreCheckedAsTheReferenceIs) {
  expect_in_order(refused(contrast_ + amateur_ + "weight = 1\n"),
                  {"unknown key \"weight\" in [references.amateur]", "did you mean \"weights\"?"});
  expect_in_order(refused(contrast_ + amateur_ + "heads = \"own\"\n[references.amateur.model]\nfuture_tokens = 3\n"),
                  {"found heads \"own\" for [references.amateur.model] future_tokens = 3, wanted at least [model] "
                   "future_tokens = 4"});
  expect_in_order(refused(contrast_ + amateur_ + "[references.amateur.model]\nvocab_size = 7\n"),
                  {"[references.amateur.model] has 7 tokens, [model] 100, wanted the same vocabulary"});
  expect_in_order(refused(contrast_ + amateur_ + "[references.amateur.model.rope_scaling]\nfactor = 2\n"),
                  {"[references.amateur.model.rope_scaling] lacks rope_type"});
  expect_in_order(refused(contrast_ + amateur_ + "strategy = \"hybrid_shard\"\n"),
                  {"\"hybrid_shard\" lacks [parallel] shard_group_size"});
}

TEST_F(References, AreTrainedAsStages) {
  const std::string text = contrast_ + "[references.amateur]\nexperiment = \"b.toml\"\n";
  write("b.toml", small);
  const Experiment e = load(text);
  ASSERT_TRUE(e.stage("references.amateur"));
  EXPECT_EQ(e.stage("references.amateur")->name, "small");
  expect_in_order(refused(text + "[references.amateur.model]\ndim = 32\n"),
                  {"[references.amateur.model] applies only to weights; an experiment defines its own shape"});
  write("b.toml", with(small, "vocab_size = 100", "vocab_size = 50"));
  expect_in_order(refused(text), {"a.toml:19:14: the stage has a different vocabulary: found vocab_size 50"});
  write("b.toml", with(small, "\"baseline\"", "\"critic\"\nloss = \"lambda_return\""));
  expect_in_order(refused(text), {"a.toml:19:14: the stage has no head that predicts tokens"});
  write("b.toml", with(small, "layers = 6", "layers = 3\nfuture_tokens = 1"));
  EXPECT_NO_THROW(load(text));
  expect_in_order(refused(text + "heads = \"own\"\n"), {"a.toml:20:9: the stage's model has too few heads"});
  expect_in_order(refused(with(text, "b.toml", "a.toml")), {"the stages form a cycle"});
}

TEST_F(References, AreInheritedAndReplaced) {
  std::filesystem::create_directories(folder_ / "base");
  write("base/c.toml", contrast_ + amateur_);
  write("base/b.toml", small);
  const std::string head = "extends = \"base/c.toml\"\nname = \"own\"\n";
  EXPECT_EQ(load(head).references.at("amateur").weights, "run:small");
  write("b.toml", small);
  const Experiment other = load(head + "[references.amateur]\nexperiment = \"b.toml\"\n");
  EXPECT_EQ(other.references.at("amateur").weights, "");
  EXPECT_EQ(other.stage("references.amateur")->file, folder_ / "b.toml");
  write("base/c.toml", contrast_ + "[references.amateur]\nexperiment = \"b.toml\"\n");
  EXPECT_EQ(load(head).stage("references.amateur")->file, folder_ / "base/b.toml");
}

TEST_F(References, HaveTablesInTheSchema) {
  ASSERT_TRUE(find_table("references.amateur"));
  EXPECT_EQ(find_table("references.amateur"), find_table("references.amateur"));
  EXPECT_TRUE(find_key(*find_table("references.amateur"), "heads"));
  EXPECT_TRUE(find_table("references.amateur.model.rope_scaling"));
  for (const char* name : {"references.", "references.policy", "references.amateur.train", "references.a.b.model"})
    EXPECT_FALSE(find_table(name)) << name;
}

}  // namespace
}  // namespace wmtp
