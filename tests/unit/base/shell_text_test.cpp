#include "base/shell_text.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace wmtp {
namespace {

/// What a shell makes of the word.
std::string read_by(const std::string& shell, const std::string& word) {
  const std::string command = shell + " -c \"$COMMAND\"";
  setenv("COMMAND", ("printf %s " + word).c_str(), 1);
  FILE* const output = popen(command.c_str(), "r");
  std::string text;
  for (int c; (c = std::fgetc(output)) != EOF;) text += char(c);
  pclose(output);
  return text;
}

TEST(ShellText, IsReadBackByAShell) {
  for (const std::string word : {"plain/a.txt", "my data/a.txt", "it's", "a\"b", "$HOME", "`id`", "a\\b", "*", "", "ü",
                                 "~", "-x", "#a", "a;b&c|d>e", "!x", "{a,b}", "a=b"})
    EXPECT_EQ(read_by("sh", shell_quoted(word)), word) << shell_quoted(word);
  for (const std::string word : {"a\nb", "caf\xe9", "a\x1b[2J",
                                 "it's\ttab\\n\x01"
                                 "7",
                                 "\xff'"})
    EXPECT_EQ(read_by("bash", shell_quoted(word)), word) << shell_quoted(word);
}

TEST(ShellText, LeavesPlainWordsAlone) {
  EXPECT_EQ(shell_quoted("experiments/rho1.toml"), "experiments/rho1.toml");
  EXPECT_EQ(shell_quoted("caf\xe9"), "$'caf\\351'");
}

TEST(ShellText, OfAPathIsNoOption) {
  EXPECT_EQ(shell_path("-x.gz"), "./-x.gz");
  EXPECT_EQ(shell_path("a-x.gz"), "a-x.gz");
}

}  // namespace
}  // namespace wmtp
