// What a rank, which writes no model, may take as one.
#include "job/find_model.hpp"

#include "base/sha256.hpp"
#include "checkpoint/base_model.hpp"
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

}  // namespace
}  // namespace wmtp
