#include "experiment/key_place.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TEST(KeyPlace, IsTheLineThatStatesTheKey) {
  Experiment experiment;
  experiment.file = "/a/rho1.toml";
  experiment.origins = {
      {"adapter.train", "base.toml:3"}, {"optimizer.groups", "rho1.toml:7"}, {"seed", "command line"}};
  EXPECT_EQ(key_place(experiment, "adapter.train"), "base.toml:3");
  EXPECT_EQ(key_place(experiment, "seed"), "/a/rho1.toml");
  EXPECT_EQ(key_place(experiment, "train.steps"), "/a/rho1.toml") << "a default";
}

TEST(KeyPlace, PrecedesAMessageThatBeginsWithAKey) {
  Experiment experiment;
  experiment.file = "/a/rho1.toml";
  experiment.origins = {{"adapter.train", "base.toml:3"}, {"optimizer.groups", "rho1.toml:7"}};
  for (const auto& [message, shown] : std::initializer_list<std::pair<const char*, const char*>>{
           {"[adapter] train: x", "base.toml:3: [adapter] train: x"},
           {"[[optimizer.groups]] match = x", "rho1.toml:7: [[optimizer.groups]] match = x"},
           {"[optimizer] name = x", "/a/rho1.toml: [optimizer] name = x"},
           {"[model]", "/a/rho1.toml: [model]"},
           {"[ no end", "[ no end"},
           {"plugin x failed", "plugin x failed"}})
    EXPECT_EQ(with_place(message, experiment), shown);
}

}  // namespace
}  // namespace wmtp
