// The trials of `plugins check`: every shipped plugin passes them, and each broken promise fails the trial that tests
// it. With WMTP_NULL_CUDA=1 (tests/null_cuda) the trials run with --device cuda.
#include "plugins/trials.hpp"

#include <gmock/gmock.h>

#include "base/installation.hpp"
#include "plugin_files.hpp"
#include "plugins/probe.hpp"
#include "plugins/torch/check/try_plugin.hpp"

namespace wmtp {
namespace {

const std::string device = std::getenv("WMTP_NULL_CUDA") ? "cuda" : "cpu";

std::string request(const std::string& trial, const PluginDescription& plugin, OptionValues options) {
  return Json{{"trial", trial}, {"plugin", PluginSetting{plugin, std::move(options)}}, {"device", device}}.dump();
}

/// Names of the trials that a plugin fails.
std::vector<std::string> failed(const PluginDescription& plugin, const OptionValues& options) {
  std::vector<std::string> names;
  for (const Trial& trial : trials_for_role(plugin.role, device)) {
    if (device == "cuda" && trial.name == "speed") continue;  // takes most of the time; null_cuda.device has one
    try {
      try_plugin(request(trial.name, plugin, options));
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::plugin) << error.what();
      names.push_back(trial.name);
    }
  }
  return names;
}

std::vector<std::pair<std::string, std::string>> every_shipped_plugin() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const char* kind : {"pipeline", "adapter", "auxiliary_loss"})
    for (const std::string& name : test::shipped(kind)) all.emplace_back(kind, name);
  return all;
}

class EveryShippedPlugin : public testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(EveryShippedPlugin, PassesEveryTrial) {
  const PluginDescription plugin = test::described(GetParam().first, GetParam().second);
  OptionValues options;
  if (plugin.name == "formula") options["weight"] = std::string("(1 - exp(-ce))^2");
  EXPECT_THAT(failed(plugin, options), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Trials, EveryShippedPlugin, testing::ValuesIn(every_shipped_plugin()),
                         [](const auto& info) { return info.param.first + "_" + info.param.second; });

/// The broken promise, and the trials that fail.
class BrokenPromise : public testing::TestWithParam<std::pair<std::string, std::vector<std::string>>> {};

TEST_P(BrokenPromise, FailsItsTrials) {
  const PluginDescription plugin = test::described("pipeline", "breaks_promises");
  EXPECT_THAT(failed(plugin, {{"promise", GetParam().first}}), testing::ElementsAreArray(GetParam().second));
}

INSTANTIATE_TEST_SUITE_P(Trials, BrokenPromise,
                         testing::Values(std::pair{"no_targets", std::vector<std::string>{"no_targets"}},
                                         std::pair{"extremes", std::vector<std::string>{"extremes"}},
                                         // State that counts on in the process also differs after a restart.
                                         std::pair{"again", std::vector<std::string>{"again", "resumes"}},
                                         std::pair{"resumes", std::vector<std::string>{"resumes"}}),
                         [](const auto& info) { return info.param.first; });

TEST(Trials, OfAPluginThatKeepsItsPromisesArePassed) {
  EXPECT_THAT(failed(test::described("pipeline", "breaks_promises"), {{"promise", std::string("none")}}),
              testing::IsEmpty());
}

TEST(Trials, ThatExitOrHangAffectNoOther) {
  set_probe_program(engine_program(), std::chrono::seconds(5));
  std::map<std::string, std::string> failures;
  for (const TrialResult& result :
       run_trials({test::described("pipeline", "breaks_promises"), {{"promise", std::string("returns")}}}, "cpu"))
    if (!result.passed) failures[result.trial.name] = result.message;
  set_probe_program(engine_program(), std::chrono::seconds(20));
  EXPECT_THAT(failures, testing::ElementsAre(testing::Pair("extremes", testing::HasSubstr("longer than 5 s")),
                                             testing::Pair("no_targets", testing::HasSubstr("exit code 0"))));
}

TEST(Trials, TellWeightsThatAreOnAnotherDevice) {
  const std::vector<std::string> names =
      failed(test::described("pipeline", "faulty"), {{"fault", std::string("device")}});
  if (device == "cpu")
    EXPECT_THAT(names, testing::IsEmpty());
  else
    EXPECT_THAT(names, testing::Contains("trains"));
}

TEST(Trials, TellWeightsThatAnAdapterForgets) {
  EXPECT_THAT(failed(test::described("adapter", "unmerged"), {}), testing::ElementsAre("merged"));
}

}  // namespace
}  // namespace wmtp
