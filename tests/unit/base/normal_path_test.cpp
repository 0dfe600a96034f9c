#include "base/normal_path.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace wmtp {
namespace {

namespace fs = std::filesystem;

TEST(NormalPath, HasNoDotsAndNoSlashAtItsEnd) {
  EXPECT_EQ(normal_path("a/./b/../c//d/"), "a/c/d");
  EXPECT_EQ(normal_path("/a/../../b"), "/b");
  EXPECT_EQ(normal_path("../a/../../b"), "../../b");
  EXPECT_EQ(normal_path("a/.."), ".");
  EXPECT_EQ(normal_path("."), ".");
  EXPECT_EQ(normal_path("/"), "/");
  EXPECT_EQ(normal_path(""), "");
}

TEST(NormalPath, NamesTheFileThatTheSystemOpensBehindALink) {
  std::string pattern = (fs::temp_directory_path() / "wmtp-paths-XXXXXX").string();
  const fs::path folder = fs::canonical(mkdtemp(pattern.data()));
  fs::create_directories(folder / "target/sub");
  fs::create_directories(folder / "here");
  fs::create_directory_symlink("../target/sub", folder / "here/link");
  std::ofstream(folder / "target/t.txt") << "the target's";
  std::ofstream(folder / "here/t.txt") << "not this";
  EXPECT_EQ(normal_path(folder / "here/link/../t.txt"), folder / "target/t.txt");
  EXPECT_EQ(normal_path(folder / "here/link/x"), folder / "here/link/x") << "links keep their names";
  fs::remove_all(folder);
}

}  // namespace
}  // namespace wmtp
