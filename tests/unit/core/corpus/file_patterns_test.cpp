#include "core/corpus/file_patterns.hpp"

#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class FilePatterns : public DataTest {
 protected:
  /// Names relative to the test's folder, in the same order.
  std::vector<std::string> names(const std::vector<fs::path>& files) const {
    std::vector<std::string> result;
    for (const auto& file : files) result.push_back(file.lexically_relative(folder_).string());
    return result;
  }
  std::vector<std::string> listed(const std::vector<std::string>& patterns,
                                  const std::vector<std::string>& exclude = {}) {
    std::vector<std::string> absolute, without;
    for (const auto& pattern : patterns) absolute.push_back(at(pattern));
    for (const auto& pattern : exclude) without.push_back(at(pattern));
    return names(list_files(absolute, without));
  }
};

TEST_F(FilePatterns, MatchesStarsWithinANameAndTwoStarsOverFolders) {
  for (const auto* name : {"a.py", "ab.py", "b.txt", "sub/a.py", "sub/deep/a.py", "sub/deep/c.txt"}) write(name, "x");
  EXPECT_EQ(listed({"*.py"}), (Names{"a.py", "ab.py"}));
  EXPECT_EQ(listed({"?.*"}), (Names{"a.py", "b.txt"}));
  EXPECT_EQ(listed({"**/*.py"}), (Names{"a.py", "ab.py", "sub/a.py", "sub/deep/a.py"}));
  EXPECT_EQ(listed({"sub/**"}), (Names{"sub/a.py", "sub/deep/a.py", "sub/deep/c.txt"}));
  EXPECT_EQ(listed({"**/deep/*"}), (Names{"sub/deep/a.py", "sub/deep/c.txt"}));
  EXPECT_EQ(listed({"*/a.py"}), (Names{"sub/a.py"}));
  EXPECT_EQ(listed({"s*/**/c.t?t"}), (Names{"sub/deep/c.txt"}));
  EXPECT_EQ(listed({"sub/../b.txt"}), (Names{"b.txt"}));
}

TEST_F(FilePatterns, ListsEachFileOnceSortedByPath) {
  for (const auto* name : {"b.py", "a/z.py", "a.py"}) write(name, "x");
  EXPECT_EQ(listed({"b.py", "**/*.py", "*.py"}), (Names{"a/z.py", "a.py", "b.py"}));
}

TEST_F(FilePatterns, LeavesOutExcludedFilesAndFolders) {
  for (const auto* name : {"a.py", "test/a.py", "test/deep/b.py", "lib/test/c.py", "lib/d.py"}) write(name, "x");
  EXPECT_EQ(listed({"**/*.py"}, {"test/**", "**/d.py"}), (Names{"a.py", "lib/test/c.py"}));
  EXPECT_EQ(listed({"**/*.py"}, {"**/test"}), (Names{"a.py", "lib/d.py"}));
  EXPECT_EQ(listed({"*.py"}, {"nothing/*"}), (Names{"a.py"}));
}

TEST_F(FilePatterns, FollowLinksToFoldersOnce) {
  write("store/books/b.txt", "x");
  write("corpus/a.txt", "x");
  fs::create_directory_symlink(folder_ / "store/books", folder_ / "corpus/books");
  EXPECT_EQ(listed({"corpus/**"}), (Names{"corpus/a.txt", "corpus/books/b.txt"}));
  EXPECT_EQ(listed({"corpus/*/b.txt"}), (Names{"corpus/books/b.txt"}));
  fs::create_directory_symlink(folder_ / "store/books", folder_ / "corpus/again");
  fs::create_directory_symlink(folder_ / "corpus", folder_ / "corpus/loop");
  EXPECT_EQ(listed({"corpus/**"}), (Names{"corpus/a.txt", "corpus/again/b.txt"})) << "the first link in order of names";
  EXPECT_EQ(listed({"**/b.txt"}), (Names{"store/books/b.txt"})) << "under its own name";
}

TEST_F(FilePatterns, ResolveTwoDotsBehindALinkAsTheSystemDoes) {
  write("target/t.txt", "x");
  write("here/t.txt", "x");
  fs::create_directories(folder_ / "target/sub");
  fs::create_directory_symlink("../target/sub", folder_ / "here/link");
  EXPECT_EQ(names(list_files({(fs::canonical(folder_) / "here/link/../t.txt").string()}, {})).size(), 1u);
  EXPECT_TRUE(list_files({at("here/link/../t.txt")}, {})[0].string().ends_with("target/t.txt"));
}

TEST_F(FilePatterns, AreNamesIfAFileOrFolderIsCalledSo) {
  for (const auto* name : {"p?/a.txt", "pX/a.txt", "what?.txt", "whatX.txt", "**/only.txt", "other/only.txt"})
    write(name, "x");
  EXPECT_EQ(listed({"p?/a.txt"}), (Names{"p?/a.txt"}));
  EXPECT_EQ(listed({"p?/*.txt"}), (Names{"p?/a.txt"}));
  EXPECT_EQ(listed({"what?.txt"}), (Names{"what?.txt"}));
  EXPECT_EQ(listed({"**/only.txt"}), (Names{"**/only.txt"}));
}

TEST_F(FilePatterns, MatchHiddenNamesOnlyByADot) {
  for (const auto* name : {"a.txt", ".b.txt", "a.txt~", "._a.txt", ".git/c.txt", ".ipynb_checkpoints/a.txt"})
    write(name, "x");
  EXPECT_EQ(listed({"**"}), (Names{"a.txt"}));
  EXPECT_EQ(listed({"*"}), (Names{"a.txt"}));
  EXPECT_EQ(listed({".b*"}), (Names{".b.txt"}));
  EXPECT_EQ(listed({".git/*"}), (Names{".git/c.txt"}));
  EXPECT_EQ(listed({"*~"}), (Names{"a.txt~"}));
}

TEST_F(FilePatterns, RefuseSetsThatLackFilesUnlessTheyAreNamed) {
  for (const auto* name : {"d/train-00000-of-00003.txt", "d/train-00002-of-00003.txt"}) write(name, "x");
  for (const auto* pattern : {"d/**", "d/*.txt", "**/train-*"})
    EXPECT_TRUE(
        has(error_of(ExitStatus::data, [&] { listed({pattern}); }), at("d/train-00001-of-00003.txt") + " is missing"));
  EXPECT_EQ(listed({"d/train-00000-of-00003.txt"}).size(), 1u);
  EXPECT_EQ(listed({"d/train-*0-of-00003.txt"}).size(), 1u) << "does not match the missing one";
}

TEST_F(FilePatterns, NamesThePatternThatMatchesNothing) {
  write("a.txt", "x");
  const auto text = error_of(ExitStatus::data, [&] { listed({"*.txt", "*.none"}); });
  EXPECT_TRUE(has(text, at("*.none"))) << text;
}

TEST_F(FilePatterns, SuggestsThePatternForAllFilesOfAFolder) {
  write("text/a.txt", "x");
  const auto text = error_of(ExitStatus::data, [&] { listed({"text"}); });
  EXPECT_TRUE(has(text, "folder") && has(text, at("text/**"))) << text;
}

}  // namespace
}  // namespace wmtp
