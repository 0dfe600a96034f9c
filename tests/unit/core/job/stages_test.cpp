// The stages of an experiment: each once, though two tables name it, and from launcher to rank as they were.
#include "core/job/stages.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace wmtp {
namespace {

TEST(NamedStages, AreEachOnceWithTheTablesThatNameThem) {
  const auto both = std::make_shared<const Experiment>(), other = std::make_shared<const Experiment>();
  Experiment experiment;
  EXPECT_TRUE(named_stages(experiment).empty());
  experiment.stages = {{"model", both}, {"reference", other}, {"value", both}};
  const auto named = named_stages(experiment);
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[0].experiment, both.get());
  EXPECT_EQ(tables_text(named[0]), "model and value");
  EXPECT_EQ(tables_text(named[1]), "reference");
}

TEST(Stages, GoFromTheLauncherToItsRanksAsText) {
  const Stages before{{"reference", {"c0ffee", "/runs/1-a \"b\"/model"}}, {"value", {"beef", ""}}};
  const Stages after = stages_from_text(to_text(before));
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after.at("reference").config_hash, "c0ffee");
  EXPECT_EQ(after.at("reference").model, "/runs/1-a \"b\"/model");
  EXPECT_TRUE(after.at("value").model.empty());
  for (const char* text : {"", "[1]", "{\"reference\": 3}", "{\"reference\": {}}"}) {
    EXPECT_THROW(stages_from_text(text), Error) << text;
  }
}

}  // namespace
}  // namespace wmtp
