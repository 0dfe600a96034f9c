// An experiment's weights lie beside its file, or are of a run that no longer changes.
#include "job/named_weights.hpp"

#include "huggingface/params_file.hpp"
#include "support/log_fixture.hpp"
#include "support/test_folder.hpp"

namespace wmtp {
namespace {

class NamedWeights : public LogTest {
 protected:
  NamedWeights() { experiment_.file = folder_ / "a.toml"; }

  std::string refused(const std::string& weights) const {
    return refusal(ExitStatus::data, [&] { resolve_weights(weights, experiment_, file_); });
  }

  Experiment experiment_;
};

TEST_F(NamedWeights, LieBesideTheExperiment) {
  std::filesystem::create_directory(folder_ / "weights");
  test::put(folder_ / "weights" / "a.safetensors", "1");
  EXPECT_EQ(resolve_weights("weights", experiment_, file_), folder_ / "weights");
  const std::string absent = refused("absent");
  EXPECT_TRUE(holds(absent, (folder_ / "absent").string())) << absent;
}

TEST_F(NamedWeights, OfARunThatTheLogLacksAreRefused) {
  const std::string text = refused("run:rho1");
  EXPECT_TRUE(holds(text, "no run log at")) << text;
}

TEST_F(NamedWeights, OfAnActiveRunAreAStepThatTheExperimentNames) {
  RunLog log(file_, start("base"));
  test::put(test::save_checkpoint(log.run_folder(), 3) / params_file_name, "{}");
  EXPECT_EQ(refused("run:base"), experiment_.file.string() +
                                     ": weights = \"run:base\": that run is active, and its newest checkpoint changes; "
                                     "name one as run:base@STEP");
  EXPECT_EQ(find_weights("run:base@3", experiment_, file_).folder.filename(), checkpoint_name(3));
  log.end(ExitStatus::interrupted);
  EXPECT_EQ(find_weights("run:base", experiment_, file_).folder.filename(), checkpoint_name(3));
}

}  // namespace
}  // namespace wmtp
