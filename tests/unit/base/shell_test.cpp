#include "base/shell.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TEST(ShellQuoted, ChangesOnlyWhatAShellWouldChange) {
  for (const char* plain : {"a/b-1.jsonl", "/x_y/t.toml", "run:1@2%=+,"}) EXPECT_EQ(shell_quoted(plain), plain);
  EXPECT_EQ(shell_quoted("my exp/rho1.toml"), "'my exp/rho1.toml'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
  for (const char* special : {"$HOME", "~/x", "-x", "a*", "a\nb", "caf\xc3\xa9", "`a`", "a;b", "a\\b"})
    EXPECT_EQ(shell_quoted(special), "'" + std::string(special) + "'");
}

}  // namespace
}  // namespace wmtp
