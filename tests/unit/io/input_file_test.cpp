#include "io/input_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.hpp"
#include "support/temporary_folder.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

TEST(CachedFile, IsReadIfItIsARegularFileOfTheExpectedSize) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(read_cached_file(folder.write("a", "text"), 4), "text");
  EXPECT_EQ(read_cached_file(folder.write("empty", ""), 4), "");
  EXPECT_EQ(read_cached_file(folder.path() / "a", 3), std::nullopt);
  EXPECT_EQ(read_cached_file(folder.path() / "absent", 4), std::nullopt);
  EXPECT_EQ(read_cached_file(folder.path(), 1 << 20), std::nullopt);
  EXPECT_EQ(read_cached_file("/dev/zero", 1 << 20), std::nullopt);
}

TEST(CachedFile, IsNotWaitedForIfItIsAPipe) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_cached_file(folder.path() / "pipe", 4), std::nullopt);
}

class LinksTest : public testing::Test {
 protected:
  LinksTest() { folder_.write("elsewhere/secret", "x"); }

  fs::path link(const std::string& name, const fs::path& to) const {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    fs::create_symlink(to, path);
    return path;
  }
  static std::string refused(const fs::path& file) {
    try {
      check_link_stays_inside(file);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::data);
      return error.what();
    }
  }

  test::TemporaryFolder folder_;
};

TEST_F(LinksTest, ThatLeaveTheirFolderAreRefused) {
  EXPECT_NE(refused(link("model/a", folder_.path() / "elsewhere/secret")).find("outside of its folder"),
            std::string::npos);
  EXPECT_NE(refused(link("model/b", "../elsewhere/secret")), "");
  EXPECT_NE(refused(link("model/c", "a")), "") << "a link to a link";
  folder_.write("model-2/d", "x");
  EXPECT_NE(refused(link("model/d", "../model-2/d")), "") << "the folder's name is a prefix";
  EXPECT_NE(refused(link("snapshots/abc/a", "../../elsewhere/secret")), "");
}

TEST_F(LinksTest, WithinTheirFolderAreAccepted) {
  folder_.write("model/part/a", "x");
  EXPECT_EQ(refused(folder_.write("model/own", "x")), "");
  EXPECT_EQ(refused(link("model/a", "part/a")), "");
  EXPECT_EQ(refused(link("model/absent", "nowhere")), "") << "reading it reports that";
  EXPECT_EQ(refused(link("latest", "model") / "a"), "") << "the folder itself may be a link";
}

TEST_F(LinksTest, OfASnapshotOfHuggingFaceAreAccepted) {
  folder_.write("models--a--b/blobs/123", "x");
  EXPECT_EQ(refused(link("models--a--b/snapshots/abc/a", "../../blobs/123")), "");
  EXPECT_EQ(refused(link("models--a--b/snapshots/abc/original/a", "../../../blobs/123")), "");
}

}  // namespace
}  // namespace wmtp
