// What is no file is never replaced by one.
#include "io/output_path.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>

#include "base/error.hpp"
#include "io/durable_file.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

class OutputPath : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "output-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = fs::canonical(name);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string refusal(const std::string& name) const {
    return test::refusal(ExitStatus::usage, [&] { output_path("-o", folder_ / name); });
  }

  fs::path folder_;
};

TEST_F(OutputPath, IsAFileThatIsThereOrNot) {
  std::ofstream(folder_ / "file") << "x";
  EXPECT_EQ(output_path("-o", folder_ / "file"), folder_ / "file");
  EXPECT_EQ(output_path("-o", folder_ / "new"), folder_ / "new");
  EXPECT_EQ(output_path("-o", "new"), "new");
}

TEST_F(OutputPath, IsTheFileThatALinkNames) {
  std::ofstream(folder_ / "file") << "x";
  fs::create_symlink("file", folder_ / "link");
  EXPECT_EQ(output_path("-o", folder_ / "link"), folder_ / "file");
  fs::create_symlink("none", folder_ / "broken");
  EXPECT_NE(refusal("broken").find("broken is a link to a file that does not exist"), std::string::npos);
}

TEST_F(OutputPath, IsNeitherAFolderNorAPipe) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder_ / "link");
  fs::create_directory(folder_ / "folder");
  EXPECT_NE(refusal("pipe").find("is a named pipe, not a regular file"), std::string::npos);
  EXPECT_NE(refusal("link").find("is a named pipe, not a regular file"), std::string::npos);
  EXPECT_NE(refusal("folder").find("is a folder, wanted a file"), std::string::npos);
}

TEST_F(OutputPath, IsNoDeviceAndNoFileReplacesOne) {
  const fs::path device = folder_ / "null";
  if (mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) GTEST_SKIP() << "only root can make a device";
  EXPECT_NE(refusal("null").find("is a device, not a regular file"), std::string::npos);
  EXPECT_THROW(write_file_durably(device, "x"), Error);
  EXPECT_TRUE(fs::is_character_file(device));
}

}  // namespace
}  // namespace wmtp
