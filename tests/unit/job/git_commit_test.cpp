// Repositories are created by git, if it is installed, and contain settings that would run code if git were called.
#include "job/git_commit.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {

class GitCommit : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("git --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "git is not installed";
    fs::create_directory(repository_ / "");
    git("init -q -b main");
    put(repository_ / "file.txt", "one");
    git("add file.txt");
    git("commit -q -m first");
  }
  /// Its output without the newline at the end.
  std::string git(const std::string& arguments) const {
    const std::string command = "cd '" + repository_.string() +
                                "' && GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null git -c user.name=n "
                                "-c user.email=e " +
                                arguments + " > '" + (folder_ / "output").string() + "'";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    std::string output = get(folder_ / "output");
    while (!output.empty() && output.back() == '\n') output.pop_back();
    return output;
  }
  std::string head() const { return git("rev-parse HEAD"); }

  TestFolder folder_;
  fs::path repository_ = folder_ / "repository";
};

TEST_F(GitCommit, OfABranchADetachedHeadAndPackedRefsIsWhatGitSays) {
  const std::string first = head();
  EXPECT_EQ(first.size(), 40u);
  EXPECT_EQ(git_commit(repository_), first);
  fs::create_directories(repository_ / "experiments" / "more");
  EXPECT_EQ(git_commit(repository_ / "experiments" / "more"), first) << "from a folder below";
  git("commit -q --allow-empty -m second");
  git("branch feature/other HEAD~1");
  git("pack-refs --all");
  ASSERT_FALSE(fs::exists(repository_ / ".git/refs/heads/main"));
  EXPECT_EQ(git_commit(repository_), head());
  git("checkout -q feature/other");
  EXPECT_EQ(git_commit(repository_), first);
  git("commit -q --allow-empty -m third");
  EXPECT_EQ(git_commit(repository_), head()) << "a loose ref goes before the packed one";
  git("checkout -q --detach HEAD~1");
  EXPECT_EQ(git_commit(repository_), first);
}

TEST_F(GitCommit, OfAWorktreeIsItsOwn) {
  const std::string first = head();
  git("worktree add -q ../tree -b side");
  git("commit -q --allow-empty -m second");
  EXPECT_EQ(git_commit(folder_ / "tree"), first);
  EXPECT_EQ(git_commit(repository_), head());
  git("pack-refs --all");
  EXPECT_EQ(git_commit(folder_ / "tree"), first);
}

TEST_F(GitCommit, ReadingItRunsNothingThatTheRepositoryNames) {
  const fs::path trace = folder_ / "ran";
  const std::string program = "#!/bin/sh\necho \"$0\" >> '" + trace.string() + "'\ncat\n";
  put(folder_ / "program", program);
  ASSERT_EQ(::chmod((folder_ / "program").c_str(), 0755), 0);
  for (const char* hook : {"post-index-change", "post-checkout", "reference-transaction", "pre-commit"}) {
    put(repository_ / ".git/hooks" / hook, program);
    ASSERT_EQ(::chmod((repository_ / ".git/hooks" / hook).c_str(), 0755), 0);
  }
  const std::string wanted = head();
  put(repository_ / ".gitattributes", "* filter=mine\n");
  git("config core.fsmonitor '" + (folder_ / "program").string() + "'");
  git("config filter.mine.clean '" + (folder_ / "program").string() + "'");
  put(repository_ / "file.txt", "two");
  fs::remove(trace);
  EXPECT_EQ(git_commit(repository_), wanted);
  EXPECT_FALSE(fs::exists(trace)) << get(trace);
  git("status --short 2> /dev/null");
  EXPECT_TRUE(fs::exists(trace)) << "git itself would have run it";
}

TEST_F(GitCommit, IsNothingWhereThereIsNoneOrItIsNoCommit) {
  EXPECT_EQ(git_commit(folder_ / "none"), "");
  const fs::path repository = folder_ / "made" / ".git";
  fs::create_directories(repository);
  const auto commit_of = [&](const std::string& head) {
    put(repository / "HEAD", head);
    return git_commit(folder_ / "made");
  };
  const std::string commit(40, 'a');
  EXPECT_EQ(commit_of(commit + "\n"), commit);
  put(folder_ / "secret", commit);
  for (const std::string& head :
       {std::string(), std::string("ref: \n"), std::string("ref: refs/heads/unborn\n"), std::string("ref: HEAD\n"),
        std::string("ref: refs/../../../secret\n"), "ref: " + (folder_ / "secret").string(), commit + "a",
        std::string(40, 'A'), std::string(1 << 20, 'a'), std::string("root:x:0:0\n")})
    EXPECT_EQ(commit_of(head), "") << head.substr(0, 80);
  fs::create_directories(repository / "refs");
  put(repository / "refs/a", "ref: refs/a\n");
  EXPECT_EQ(commit_of("ref: refs/a\n"), "") << "one that names itself";
  fs::remove(repository / "HEAD");
  ASSERT_EQ(::mkfifo((repository / "HEAD").c_str(), 0600), 0);
  EXPECT_EQ(git_commit(folder_ / "made"), "") << "a pipe that nobody writes to";
}

TEST_F(GitCommit, OfAnotherUsersRepositoryIsNotRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::chown((repository_ / ".git").c_str(), 12345, 12345), 0);
  EXPECT_EQ(git_commit(repository_), "");
}

}  // namespace
}  // namespace wmtp::test
