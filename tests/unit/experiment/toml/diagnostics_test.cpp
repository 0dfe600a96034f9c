// How a mistake is printed: its place, its line with a caret, and no character that controls a terminal.
#include "experiment/toml/diagnostics.hpp"

#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

std::string raised(const Diagnostics& diagnostics, ExitStatus status = ExitStatus::usage) {
  return error_of(status, [&] { diagnostics.raise(); });
}

/// One mistake in a file "a.toml" of this text.
std::string printed_for(const std::string& text, TomlPosition position, const std::string& message = "wrong",
                        const std::string& hint = "") {
  Diagnostics diagnostics;
  position.source = diagnostics.add_file("a.toml", text);
  diagnostics.add(position, message, hint);
  return raised(diagnostics);
}

TEST(Diagnostics, PointAtACharacterAndNotAtAByte) {
  EXPECT_EQ(printed_for("x = 1\nname = \"\u00e9\" y\n", {0, 2, 12}, "found y", "remove it"),
            "a.toml:2:12: found y\n"
            "    name = \"\u00e9\" y\n"
            "               ^\n"
            "  remove it");
}

TEST(Diagnostics, PrintFurtherLinesOfAMessageBelowTheCaret) {
  EXPECT_EQ(printed_for("x = 1", {0, 1, 5}, "first\nsecond\nthird", "hint"),
            "a.toml:1:5: first\n    x = 1\n        ^\n  second\n  third\n  hint");
}

TEST(Diagnostics, WithoutAMistakeRaiseNothing) {
  Diagnostics diagnostics;
  diagnostics.add_file("a.toml", "x = 1");
  EXPECT_NO_THROW(diagnostics.raise());
  EXPECT_EQ(diagnostics.count(), 0u);
}

TEST(Diagnostics, RaiseAllMistakesInTheOrderOfTheirPlaces) {
  Diagnostics diagnostics;
  const int file = diagnostics.add_file("a.toml", "a\nb c\n"), set = diagnostics.add_override("k=v"),
            stage = diagnostics.add_file("b.toml", "d\n");
  diagnostics.add({stage, 1, 1}, "fifth");
  diagnostics.add({file, 2, 3}, "third");
  diagnostics.add({file, 2, 1}, "second");
  diagnostics.add({set, 1, 7}, "fourth");
  diagnostics.add({file, 1, 1}, "first");
  EXPECT_EQ(diagnostics.count(), 5u);
  EXPECT_EQ(raised(diagnostics),
            "a.toml:1:1: first\n    a\n    ^\n"
            "a.toml:2:1: second\n    b c\n    ^\n"
            "a.toml:2:3: third\n    b c\n      ^\n"
            "--set k=v: fourth\n    --set k=v\n          ^\n"
            "b.toml:1:1: fifth\n    d\n    ^");
}

TEST(Diagnostics, FailAsAPluginOnlyIfEveryMistakeIsAPlugins) {
  Diagnostics diagnostics;
  const int file = diagnostics.add_file("a.toml", "a\n");
  diagnostics.add({file, 1, 1}, "no such plugin", "", ExitStatus::plugin);
  diagnostics.add({file, 1, 1}, "nor this one", "", ExitStatus::plugin);
  raised(diagnostics, ExitStatus::plugin);
  diagnostics.add({file, 1, 1}, "found 3", "");
  raised(diagnostics, ExitStatus::usage);
}

TEST(Diagnostics, ShowTheHundredCharactersAroundThePlaceOfALongLine) {
  const std::string line = std::string(149, 'a') + "X" + std::string(150, 'b');
  EXPECT_EQ(printed_for(line, {0, 1, 150}), "a.toml:1:150: wrong\n    " + std::string(50, 'a') + "X" +
                                                std::string(49, 'b') + "\n    " + std::string(50, ' ') + "^");
  EXPECT_EQ(printed_for(line, {0, 1, 1}), "a.toml:1:1: wrong\n    " + std::string(100, 'a') + "\n    ^");
}

TEST(Diagnostics, NeedNoLineWhereTheTextHasEnded) {
  EXPECT_EQ(printed_for("x = 1\n", {0, 2, 1}), "a.toml:2:1: wrong");
  EXPECT_EQ(printed_for("", {0, 1, 1}), "a.toml:1:1: wrong");
  EXPECT_EQ(printed_for("x = 1\r\ny\r\n", {0, 1, 3}), "a.toml:1:3: wrong\n    x = 1\n      ^")
      << "the line does not end with a carriage return";
}

TEST(Diagnostics, ReplaceWhatWouldControlATerminal) {
  const std::string text = "a\x1b[31m\tb\u009bc\u202ed\u2066e\x7f\xff";
  EXPECT_EQ(printed_for(text, {0, 1, 1}), "a.toml:1:1: wrong\n    a?[31m b?c?d?e??\n    ^");
  EXPECT_EQ(on_one_line(text), "a?[31m b?c?d?e??");
  EXPECT_EQ(on_one_line("one\ntwo \u00e9\u4e2d\U0001F600"), "one?two \u00e9\u4e2d\U0001F600");
}

TEST(Diagnostics, QuoteAtMostSixtyCharacters) {
  std::string sixty;
  for (int i = 0; i < 60; ++i) sixty += "\u00e9";
  EXPECT_EQ(quote(sixty), "\"" + sixty + "\"");
  EXPECT_EQ(quote(sixty + "x"), "\"" + sixty + "...\"");
}

TEST(Diagnostics, NameTheOriginOfAValue) {
  Diagnostics diagnostics;
  const int file = diagnostics.add_file("a\n.toml", "x = 1\ny = 2\n"), set = diagnostics.add_override("x=3");
  EXPECT_EQ(diagnostics.origin_text({file, 2, 5}), "a?.toml:2");
  EXPECT_EQ(diagnostics.origin_text({set, 1, 9}), "command line");
  EXPECT_EQ(diagnostics.source_text(set), "--set x=3") << "the columns of an override count from here";
}

TEST(Diagnostics, CutTheTextOfALongOverride) {
  Diagnostics diagnostics;
  diagnostics.add({diagnostics.add_override("x=" + std::string(200, 'y')), 1, 7}, "wrong");
  EXPECT_TRUE(raised(diagnostics).starts_with("--set x=" + std::string(92, 'y') + "...: wrong\n"));
}

}  // namespace
}  // namespace wmtp
