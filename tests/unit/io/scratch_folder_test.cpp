// Temporary folders have an owning process, and are removed once it has ended; nothing else is removed.
#include "io/scratch_folder.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/error.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

class ScratchFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "scratch-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    parent_ = name;
    setenv("TMPDIR", name.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    fs::remove_all(parent_);
  }

  /// A folder that contains a file, named like those of this user.
  fs::path planted(const std::string& ending) const {
    const fs::path folder = parent_ / ("wmtp-" + std::to_string(geteuid()) + "-" + ending);
    fs::create_directory(folder);
    fs::permissions(folder, fs::perms::owner_all);
    std::ofstream(folder / "file") << "x";
    return folder;
  }

  fs::path parent_;
};

TEST_F(ScratchFolderTest, IsPrivateAndRemovedByItsDestructor) {
  fs::path path;
  {
    const ScratchFolder folder;
    path = folder.path();
    EXPECT_EQ(path.parent_path(), parent_);
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    std::ofstream(path / "file") << "x";
    remove_abandoned_scratch_folders(parent_);
    EXPECT_TRUE(fs::exists(path / "file")) << "its owner lives";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(ScratchFolderTest, IsUsableFromAnyFolderAndWithAnyUmask) {
  const fs::path before = fs::current_path();
  fs::current_path(parent_);
  setenv("TMPDIR", ".", 1);
  const mode_t mask = umask(0777);
  const fs::path lasting = persistent_temp_folder("seven__");
  const ScratchFolder folder;
  umask(mask);
  fs::current_path(before);
  EXPECT_TRUE(folder.path().is_absolute());
  for (const fs::path& path : {folder.path(), lasting}) {
    EXPECT_TRUE(fs::equivalent(path.parent_path(), parent_)) << path;
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all) << path;
  }
}

TEST_F(ScratchFolderTest, IsRemovedHoweverDeepLongAndClosedItsFoldersAre) {
  rlimit before{}, few{};
  getrlimit(RLIMIT_NOFILE, &before);
  few = before;
  few.rlim_cur = 64;
  {
    const ScratchFolder folder;
    const fs::path here = fs::current_path();
    fs::current_path(folder.path());
    for (int i = 0; i < 1500; ++i) {
      std::ofstream("1") << "x";
      const std::string name = i % 2 ? "2" : std::string(200, 'd');
      ASSERT_EQ(mkdir(name.c_str(), 0700), 0);
      ASSERT_EQ(chdir(name.c_str()), 0);
    }
    fs::create_symlink(parent_, "link");
    fs::current_path(here);
    fs::create_directory(folder.path() / "closed");
    std::ofstream(folder.path() / "closed/file") << "x";
    fs::permissions(folder.path() / "closed", fs::perms::none);
    fs::permissions(folder.path(), fs::perms::none);
    setrlimit(RLIMIT_NOFILE, &few);
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(fs::is_empty(parent_));
}

TEST_F(ScratchFolderTest, OfAKilledProcessIsRemovedByALaterProcess) {
  int output[2];
  ASSERT_EQ(pipe(output), 0);
  const pid_t child = fork();
  if (child == 0) {
    const ScratchFolder folder;
    std::ofstream(folder.path() / "file") << "x";
    if (write(output[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(output[0], &byte, 1), 1);
  remove_abandoned_scratch_folders(parent_);
  EXPECT_FALSE(fs::is_empty(parent_)) << "its owner lives";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(fs::is_empty(parent_));
  remove_abandoned_scratch_folders(parent_);
  EXPECT_TRUE(fs::is_empty(parent_));
  close(output[0]);
  close(output[1]);
}

TEST_F(ScratchFolderTest, RemovesNothingElse) {
  const fs::path elsewhere = parent_ / "elsewhere", ownerless = planted("aaaaaa"), open = planted("bbbbbb");
  fs::create_directory(elsewhere);
  std::ofstream(elsewhere / "file") << "x";
  fs::create_directory_symlink(elsewhere, parent_ / ("wmtp-" + std::to_string(geteuid()) + "-cccccc"));
  fs::create_directory_symlink(elsewhere, ownerless / "link");
  fs::permissions(open, fs::perms::all);  // this program creates none that other users may enter
  const fs::path longer = planted("ddddddd"), of_another = planted("eeeeee");
  const bool is_root = geteuid() == 0 && chown(of_another.c_str(), 65534, 65534) == 0;
  const std::string file = planted("ffffff") / "file";
  fs::rename(file, parent_ / "kept");
  remove_abandoned_scratch_folders(parent_);
  EXPECT_FALSE(fs::exists(ownerless));
  EXPECT_TRUE(fs::exists(elsewhere / "file")) << "links lead nowhere";
  EXPECT_TRUE(fs::exists(open));
  EXPECT_TRUE(fs::exists(longer));
  EXPECT_TRUE(fs::exists(parent_ / "kept"));
  EXPECT_EQ(fs::exists(of_another), is_root) << "only root can give a folder away here";
}

TEST_F(ScratchFolderTest, RemovesNothingWhereOthersCanRenameFolders) {
  const fs::path folder = planted("aaaaaa");
  ASSERT_EQ(chmod(parent_.c_str(), 0777), 0);
  remove_abandoned_scratch_folders(parent_);
  EXPECT_TRUE(fs::exists(folder));
  ASSERT_EQ(chmod(parent_.c_str(), 01777), 0);
  remove_abandoned_scratch_folders(parent_);
  EXPECT_FALSE(fs::exists(folder)) << "as in /tmp";
}

TEST_F(ScratchFolderTest, ALastingFolderStaysAndIsThisUsersAlone) {
  const fs::path folder = persistent_temp_folder("plugins");
  EXPECT_EQ(folder, parent_ / ("wmtp-" + std::to_string(geteuid()) + "-plugins"));
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  std::ofstream(folder / "file") << "x";
  remove_abandoned_scratch_folders(parent_);
  EXPECT_EQ(persistent_temp_folder("plugins"), folder);
  EXPECT_TRUE(fs::exists(folder / "file"));

  fs::permissions(folder, fs::perms::all);
  EXPECT_TRUE(persistent_temp_folder("plugins").empty()) << "others can write it";
  fs::permissions(folder, fs::perms::owner_all);
  ASSERT_EQ(chmod(parent_.c_str(), 0777), 0);
  EXPECT_TRUE(persistent_temp_folder("plugins").empty()) << "others can replace it";
  ASSERT_EQ(chmod(parent_.c_str(), 0700), 0);
  fs::rename(folder, parent_ / "other");
  fs::create_directory_symlink(parent_ / "other", folder);
  EXPECT_TRUE(persistent_temp_folder("plugins").empty()) << "a link";
  setenv("TMPDIR", (parent_ / "absent").c_str(), 1);
  EXPECT_TRUE(persistent_temp_folder("plugins").empty());
}

TEST_F(ScratchFolderTest, RefusesATemporaryFolderThatIsMissingOrAFile) {
  std::ofstream(parent_ / "file") << "x";
  for (const char* name : {"absent", "file"}) {
    setenv("TMPDIR", (parent_ / name).c_str(), 1);
    EXPECT_SAYS(test::refusal(ExitStatus::storage, [] { const ScratchFolder folder; }), "TMPDIR") << name;
  }
}

}  // namespace
}  // namespace wmtp
