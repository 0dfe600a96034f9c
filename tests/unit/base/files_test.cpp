#include "base/files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "support/refusal.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using test::refusal;

class InputPaths : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "wmtp-files-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    std::ofstream(folder_ / "file") << "text";
    fs::create_symlink(folder_ / "file", folder_ / "link");
    ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(InputPaths, AcceptRegularFilesAndLinksToThem) {
  EXPECT_NO_THROW(check_is_file(folder_ / "file"));
  EXPECT_NO_THROW(check_is_file(folder_ / "link"));
}

TEST_F(InputPaths, RefuseOtherTypesWithoutOpeningThem) {
  const std::string folder = folder_.string();
  EXPECT_EQ(refusal(ExitStatus::data, [&] { check_is_file(folder_); }),
            folder + " is a folder, not a regular file; specify a regular file");
  EXPECT_EQ(refusal(ExitStatus::data, [&] { check_is_file(folder_ / "pipe"); }),
            folder + "/pipe is a named pipe, not a regular file; specify a regular file");
  EXPECT_EQ(refusal(ExitStatus::usage, [] { check_is_file("/dev/zero", ExitStatus::usage); }),
            "/dev/zero is a device, not a regular file; specify a regular file");
  EXPECT_EQ(refusal(ExitStatus::data, [&] { check_is_file(folder_ / "absent"); }),
            folder + "/absent does not exist; check the path, or restore the file");
}

}  // namespace
}  // namespace wmtp
