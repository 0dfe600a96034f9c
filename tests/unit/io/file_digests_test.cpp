// Digests of files, remembered while the files do not change.
#include "io/file_digests.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "support/temporary_folder.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class FileDigestsTest : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text) const { return folder_.write(name, text); }
  fs::path cache() const { return folder_.path() / "cache"; }
  fs::path list() const { return cache() / "hashes.txt"; }
  std::string listed() const { return test::bytes_of(list()); }
  void remember(const fs::path& file) const { EXPECT_EQ(FileDigests(list(), 0s).read(file), file_sha256_hex(file)); }
  std::optional<std::string> known(const fs::path& file) const { return FileDigests(list(), 0s).known(file); }

  test::TemporaryFolder folder_;
};

TEST_F(FileDigestsTest, AreKnownToALaterStart) {
  const fs::path a = write("a file", "text"), b = write("b", "other");
  EXPECT_EQ(known(a), std::nullopt);
  remember(a);
  remember(b);
  EXPECT_EQ(known(a), sha256_hex("text"));
  EXPECT_EQ(known(b), sha256_hex("other"));
  EXPECT_EQ(known(folder_.path() / "." / "a file"), sha256_hex("text"));
}

TEST_F(FileDigestsTest, AListThatIsAPipeIsReplaced) {
  const fs::path file = write("a", "text");
  fs::create_directories(cache());
  ASSERT_EQ(mkfifo(list().c_str(), 0600), 0);
  remember(file);
  EXPECT_EQ(known(file), sha256_hex("text"));
}

TEST_F(FileDigestsTest, AreForgottenWhenAFileChangesInAnyWay) {
  const fs::path file = write("a", "text");
  remember(file);
  const auto time = fs::last_write_time(file);
  write("a", "TEXT");
  fs::last_write_time(file, time);
  EXPECT_EQ(known(file), std::nullopt) << "the same size and time of modification, but another time of change";
  remember(file);
  fs::rename(write("b", "TEXT"), file);
  EXPECT_EQ(known(file), std::nullopt) << "another file";
  remember(file);
  EXPECT_EQ(known(file), sha256_hex("TEXT"));
  fs::remove(file);
  EXPECT_EQ(known(file), std::nullopt);
}

TEST_F(FileDigestsTest, OfAFileThatHasJustChangedAreNotRemembered) {
  const fs::path file = write("a", "text");
  EXPECT_EQ(FileDigests(list(), 1h).read(file), sha256_hex("text"));
  EXPECT_FALSE(fs::exists(list()));
  EXPECT_EQ(known(file), std::nullopt);
}

TEST_F(FileDigestsTest, AreReadAgainWhenTheListIsUnusable) {
  const fs::path file = write("a", "text");
  remember(file);
  const std::string good = listed();
  for (const std::string& text : {std::string("no list"), std::string(), "zz" + good.substr(2), good.substr(0, 70),
                                  good.substr(0, 64) + "\n", std::string(200, ' ') + "\n"}) {
    write("cache/hashes.txt", text);
    EXPECT_EQ(known(file), std::nullopt) << text;
    remember(file);
    EXPECT_EQ(known(file), sha256_hex("text")) << text;
  }
  fs::remove_all(cache());
  write("cache", "a file where the folder should be");
  remember(file);
}

TEST_F(FileDigestsTest, OfTwoProcessesAreBothKept) {
  const fs::path a = write("a", "1"), b = write("b", "2");
  {
    FileDigests one(list(), 0s), other(list(), 0s);
    one.read(a);
    other.read(b);
  }
  EXPECT_EQ(known(a), sha256_hex("1"));
  EXPECT_EQ(known(b), sha256_hex("2"));
}

TEST_F(FileDigestsTest, OfFilesThatNoLongerExistAreDropped) {
  const fs::path a = write("a", "1"), b = write("b", "2");
  remember(a);
  fs::remove(a);
  remember(b);
  EXPECT_EQ(listed().find("/a\n"), std::string::npos);
  EXPECT_NE(listed().find("/b\n"), std::string::npos);
}

TEST_F(FileDigestsTest, AreNotRememberedBesideALogThatDoesNotExist) {
  const fs::path file = write("a", "text"), runs = folder_.path() / "runs";
  FileDigests(runs / "cache" / "hashes.txt", 0s).read(file);
  EXPECT_FALSE(fs::exists(runs)) << "a plan before the first run leaves no folder behind";
}

TEST_F(FileDigestsTest, OfAMissingFileAreAnError) {
  EXPECT_THROW(FileDigests(list()).read(folder_.path() / "absent"), Error);
}

}  // namespace
}  // namespace wmtp
