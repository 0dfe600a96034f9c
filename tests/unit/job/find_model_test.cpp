// What a rank, which writes no model, may take as one.
#include "job/find_model.hpp"

#include "base/sha256.hpp"
#include "checkpoint/base_model.hpp"
#include "huggingface/params_file.hpp"
#include "log/run_folders.hpp"
#include "support/log_fixture.hpp"
#include "support/test_folder.hpp"

namespace wmtp {
namespace {

using FindModel = LogTest;

TEST_F(FindModel, OfAPartialCheckpointIsTheCompleteOneInTheCacheWhichARankDoesNotWrite) {
  const auto checkpoint = test::save_checkpoint(folder_ / "1-base", 3);
  EXPECT_EQ(find_complete_model(checkpoint, file_), checkpoint) << "it holds all of the model";
  test::put(checkpoint / base_model_name, "{}");
  const std::string refused = refusal(ExitStatus::data, [&] { find_complete_model(checkpoint, file_); });
  EXPECT_TRUE(refused.starts_with(checkpoint.string() + " holds only what its run trains")) << refused;
  EXPECT_TRUE(holds(refused, "this rank cannot join it with its base model")) << refused;
  EXPECT_TRUE(holds(refused, "`wmtp-host checkpoint merge " + checkpoint.string() + " -o DIR`")) << refused;
  const auto complete =
      cache_folder_path(file_) / "models" / file_sha256_hex(checkpoint / manifest_file_name).substr(0, 16);
  std::filesystem::create_directories(complete);
  EXPECT_EQ(find_complete_model(checkpoint, file_), complete);
}

TEST_F(FindModel, SaysWhichOneANameStandsForIfSeveralRunsHaveIt) {
  const auto run = [&](ExitStatus status) {
    RunLog log(file_, start("twin"));
    std::filesystem::create_directory(model_in(log.run_folder()));
    test::put(model_in(log.run_folder()) / params_file_name, "{}");
    log.end(status);
  };
  run(ExitStatus::done);
  EXPECT_EQ(find_model("twin", file_).note, "");
  run(ExitStatus::done);
  run(ExitStatus::bug);
  EXPECT_EQ(find_model("twin", file_).note, "run 2 ('twin') is the newest finished one of the 3 runs of this name");
  EXPECT_EQ(find_model("2", file_).note, "");
}

}  // namespace
}  // namespace wmtp
