// `--set a.b=value`: a TOML value that is applied to the file and checked by the same schema.
#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

using Overrides = ExperimentFolder;

TEST_F(Overrides, ReplaceAndAddKeys) {
  const Experiment e = load(small, {"train.steps=20", "optimizer.lr = 1e-3", "parallel.strategy=\"no_shard\"",
                                    "optimizer.betas=[0.5, 0.6]", "name=\"other\"", "train.steps=30"});
  EXPECT_EQ(e.train.steps, 30);
  EXPECT_EQ(e.optimizer.lr, 1e-3);
  EXPECT_EQ(e.optimizer.beta2, 0.6);
  EXPECT_EQ(e.parallel.strategy, Strategy::no_shard);
  EXPECT_EQ(e.name, "other");
  EXPECT_EQ(e.source, small);
}

TEST_F(Overrides, AcceptABareWordAsText) {
  const Experiment e = load(small, {"parallel.strategy=shard_grad_op", "adapter.plugin=lora", "log.database=/tmp/x.db",
                                    "model.weights=run:base", "name=2nd"});
  EXPECT_EQ(e.parallel.strategy, Strategy::shard_grad_op);
  EXPECT_EQ(e.adapter.plugin, "lora");
  EXPECT_EQ(e.log.database, "/tmp/x.db");
  EXPECT_EQ(e.model.weights, "run:base");
  EXPECT_EQ(e.name, "2nd");
}

TEST_F(Overrides, ReplaceAWholeTable) {
  const Experiment e = load(small, {"train={steps = 3, batch_size = 1, sequence_length = 16}"});
  EXPECT_EQ(e.train.steps, 3);
  EXPECT_EQ(e.train.batch_size, 1);
  EXPECT_NE(refused(small, {"train={steps = 3}"}).find("[train] lacks batch_size and sequence_length"),
            std::string::npos);
}

TEST_F(Overrides, ReplaceAnErroneousValueOfTheFile) {
  EXPECT_EQ(load(with(small, "steps = 10", "steps = \"x\""), {"train.steps=4"}).train.steps, 4);
}

TEST_F(Overrides, AreReportedWithACaretAtTheError) {
  EXPECT_EQ(refused(small, {"optimizer.lr=nan"}),
            "--set optimizer.lr=nan: [optimizer] lr: found the number nan, wanted a number above 0\n"
            "    --set optimizer.lr=nan\n"
            "                       ^");
  EXPECT_EQ(refused(small, {"train.stesp=3"}),
            "--set train.stesp=3: unknown key \"stesp\" in [train]\n"
            "    --set train.stesp=3\n"
            "                ^\n"
            "  did you mean \"steps\"?");
  expect_in_order(
      refused(small, {"train.steps=many", "model.dim=\"x\""}),
      {"--set train.steps=many: [train] steps: found the string \"many\"", "--set model.dim=\"x\": [model] dim"});
}

TEST_F(Overrides, AreReportedAfterTheErrorsOfTheFile) {
  expect_in_order(refused(small + "x = 1\n", {"y=2"}),
                  {"a.toml:15:1: unknown key \"x\"", "--set y=2: unknown key \"y\""});
}

TEST_F(Overrides, AreRefusedWithoutKeyOrValue) {
  EXPECT_NE(refused(small, {"train.steps"}).find("found no value, wanted key=value"), std::string::npos);
  EXPECT_NE(refused(small, {"train.steps="}).find("found no value"), std::string::npos);
  EXPECT_NE(refused(small, {"=3"}).find("found the key \"\""), std::string::npos);
  EXPECT_NE(refused(small, {""}).find("found no value"), std::string::npos);
  EXPECT_NE(refused(small, {"train..steps=3"}).find("wanted names joined by dots"), std::string::npos);
  EXPECT_NE(refused(small, {"name=a b"}).find("invalid TOML"), std::string::npos);
  EXPECT_NE(refused(small, {"name=1\nseed=2"}).find("found several lines"), std::string::npos);
  EXPECT_NE(refused(small, {"name.x=1"}).find("\"name\" is not a table"), std::string::npos);
  EXPECT_NE(refused(small, {"name=\xff"}).find("not valid UTF-8"), std::string::npos);
  EXPECT_NE(refused(small, {"name=" + std::string(20000, 'a')}).find("wanted at most 16384"), std::string::npos);
}

TEST_F(Overrides, AreReportedEvenIfTheFileIsInvalid) {
  expect_in_order(refused("name = \n", {"train.steps"}), {"a.toml:1:", "--set train.steps: found no value"});
}

}  // namespace
}  // namespace wmtp
