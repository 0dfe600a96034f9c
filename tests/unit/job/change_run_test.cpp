#include "job/change_run.hpp"

#include "io/run_lock.hpp"
#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

using RenameRun = LogTest;

TEST_F(RenameRun, MovesTheFolder) {
  std::filesystem::path folder;
  {
    RunLog log(file_, start("old"));
    folder = log.run_folder();
    log.end(ExitStatus::done);
  }
  rename_run(file_, 1, "new.name");
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "1-new.name"));
  EXPECT_EQ(text("SELECT name FROM runs"), "new.name");
}

TEST_F(RenameRun, RefusesAnInvalidNameAnActiveRunAndAFolderThatExists) {
  RunLog log(file_, start("old"));
  EXPECT_TRUE(holds(refusal(ExitStatus::usage, [&] { rename_run(file_, 1, "new"); }), "is running"));
  log.end(ExitStatus::done);
  for (const std::string name : {"", "-a", "a/b", "a b"})
    EXPECT_TRUE(holds(refusal(ExitStatus::usage, [&] { rename_run(file_, 1, name); }), "wanted at most 64 letters"));
  std::filesystem::create_directory(folder_ / "1-taken");
  EXPECT_TRUE(holds(refusal(ExitStatus::storage, [&] { rename_run(file_, 1, "taken"); }), "already exists"));
  EXPECT_EQ(text("SELECT name FROM runs"), "old");
  EXPECT_TRUE(std::filesystem::exists(log.run_folder()));
}

}  // namespace
}  // namespace wmtp
