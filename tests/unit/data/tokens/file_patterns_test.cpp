#include "data/tokens/file_patterns.hpp"

#include <sys/stat.h>

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

TEST_F(FilePatterns, RefusesAFileThatIsThereAsItIsAndPacked) {
  for (const auto* name : {"a.jsonl", "a.jsonl.gz", "b.txt", "b.txt.zst", "c.gz"}) write(name, "x");
  const auto text = error_of(ExitStatus::data, [&] { listed({"a*"}); });
  EXPECT_TRUE(has(text, at("a.jsonl") + " and " + at("a.jsonl.gz") + " look like one text, as it is and packed"))
      << text;
  EXPECT_TRUE(has(text, "data.exclude")) << text;
  EXPECT_EQ(listed({"*"}, {"*.gz", "b.txt"}), (Names{"a.jsonl", "b.txt.zst"}));
  EXPECT_EQ(listed({"a.jsonl", "a.jsonl.gz"}), (Names{"a.jsonl", "a.jsonl.gz"})) << "named one by one";
}

TEST_F(FilePatterns, RefusesADownloadThatIsNotFinished) {
  write("a.txt", "x");
  for (const auto* name :
       {"b.txt.part", "b.txt.partial", "b.jsonl.gz.crdownload", "b.bin.incomplete", "a.txt.aria2", "c.txt.tmp"}) {
    write(name, "x");
    const auto text = error_of(ExitStatus::data, [&] { listed({"*"}); });
    EXPECT_TRUE(has(text, at(name) + " looks like a download that is not finished; finish it")) << text;
    EXPECT_EQ(listed({"*"}, {name}), (Names{"a.txt"}));
    EXPECT_EQ(listed({"a.txt", name}).size(), 2u) << "named one by one";
    fs::remove(at(name));
  }
  for (const auto* name : {"one.part", "two.tmp", "#a.txt#", "a.txt~"}) write(name, "x");
  EXPECT_EQ(listed({"*"}), (Names{"a.txt", "one.part", "two.tmp"}));
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

TEST_F(FilePatterns, ListAFileOnceWhateverLinksLeadToIt) {
  write("z.txt", "x");
  fs::create_symlink("z.txt", folder_ / "a.txt");
  fs::create_hard_link(folder_ / "z.txt", folder_ / "zz.txt");
  EXPECT_EQ(listed({"*.txt"}), (Names{"z.txt"})) << "under its own name";
  EXPECT_EQ(listed({"a.txt", "z.txt"}), (Names{"z.txt"}));
  EXPECT_EQ(listed({"a.txt"}), (Names{"a.txt"}));
  const auto rest = without(list_files({at("z.txt")}, {}), list_files({at("a.txt")}, {}));
  EXPECT_TRUE(rest.empty()) << "it is the same file";
}

TEST_F(FilePatterns, ExcludeAFileUnderAllItsNames) {
  for (const auto* name : {"data/train/1.txt", "data/val/v.txt"}) write(name, "x");
  fs::create_directory_symlink("data", folder_ / "linked");
  fs::create_symlink("data/val/v.txt", folder_ / "link.txt");
  fs::create_directory(folder_ / "links");
  fs::create_symlink("../data/val/v.txt", folder_ / "links/v.txt");
  for (const auto* exclude : {"linked/val/**", "linked/val", "linked/*/v.txt", "link.txt", "links/*.txt", "links/**"})
    EXPECT_EQ(listed({"data/**"}, {exclude}), (Names{"data/train/1.txt"})) << exclude;
  EXPECT_EQ(listed({"linked/**"}, {"data/val/**"}), (Names{"linked/train/1.txt"}));
  EXPECT_EQ(listed({"data/**", "link.txt"}, {"link.txt"}), (Names{"data/train/1.txt"}));
}

TEST_F(FilePatterns, RefuseMatchesThatCannotBeRead) {
  const auto refused = [&](const std::string& pattern, const std::string& wanted) {
    const auto text = error_of(ExitStatus::data, [&] { listed({pattern}); });
    EXPECT_TRUE(has(text, wanted)) << text;
  };
  write("g/a.txt", "x");
  fs::create_symlink("../.git/annex/objects/b", folder_ / "g/b.txt");
  for (const auto* pattern : {"g/*.txt", "g/**", "*/b.txt", "g/b.txt"})
    refused(pattern, at("g/b.txt") + " is a link to a file or folder that does not exist");
  EXPECT_EQ(listed({"g/*.txt"}, {"g/b.txt"}), (Names{"g/a.txt"}));
  fs::rename(folder_ / "g/b.txt", folder_ / "g/b.png");
  EXPECT_EQ(listed({"g/**/*.txt"}), (Names{"g/a.txt"})) << "does not match the link";
  fs::rename(folder_ / "g/b.png", folder_ / "g/books");
  for (const auto* pattern : {"g/**/*.txt", "**/books/*", "g/books/*.txt"})
    refused(pattern, at("g/books") + " is a link to a file or folder that does not exist");
  fs::remove(folder_ / "g/books");
  ASSERT_EQ(mkfifo(at("g/pipe").c_str(), 0600), 0);
  refused("g/**", at("g/pipe") + " is a named pipe");
  EXPECT_EQ(listed({"g/**"}, {"g/pipe"}), (Names{"g/a.txt"}));
}

TEST_F(FilePatterns, ReadTheNamesInTheCacheOfHuggingFace) {
  const auto add = [&](const std::string& revision, const std::string& name, const std::string& hash) {
    write("hub/blobs/" + hash, "x");
    fs::create_directories(folder_ / "hub/snapshots" / revision);
    fs::create_symlink("../../blobs/" + hash, folder_ / "hub/snapshots" / revision / name);
  };
  write("hub/refs/main", "1");
  add("1", "a.txt", "f00");
  add("1", "b.txt", "f01");
  EXPECT_EQ(listed({"hub/**"}), (Names{"hub/snapshots/1/a.txt", "hub/snapshots/1/b.txt"}));
  EXPECT_EQ(listed({"**"}), (Names{"hub/snapshots/1/a.txt", "hub/snapshots/1/b.txt"}));
  EXPECT_EQ(listed({"hub/blobs/*"}), (Names{"hub/blobs/f00", "hub/blobs/f01"}));
  add("2", "a.txt", "f00");
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { listed({"hub/**/a.txt"}); }),
                  at("hub/snapshots") + " has the revisions 1 and 2; name the folder of one"));
  EXPECT_EQ(listed({"hub/**/b.txt"}), (Names{"hub/snapshots/1/b.txt"})) << "one revision has it";
  EXPECT_EQ(listed({"hub/snapshots/2/*"}), (Names{"hub/snapshots/2/a.txt"}));
  fs::create_directory_symlink("hub/snapshots", folder_ / "latest");
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { listed({"latest/**"}); }), "has the revisions 1 and 2"));
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
