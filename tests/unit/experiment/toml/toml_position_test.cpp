// Bytes of TOML text, and of the strings in it, as lines and columns.
#include "experiment/toml/toml_position.hpp"

#include "experiment/toml/toml_source.hpp"
#include "support/data_fixture.hpp"

namespace wmtp {

bool operator==(const TomlPosition& a, const TomlPosition& b) {
  return a.source == b.source && a.line == b.line && a.column == b.column;
}
void PrintTo(const TomlPosition& position, std::ostream* out) {
  *out << position.source << ":" << position.line << ":" << position.column;
}

namespace {

TEST(TomlPlaces, CountLinesAndCharactersFromOne) {
  const std::string text = "a\n\u00e9 b\n\nc";
  EXPECT_EQ(byte_position(3, text, 0), (TomlPosition{3, 1, 1}));
  EXPECT_EQ(byte_position(3, text, 1), (TomlPosition{3, 1, 2})) << "the line break itself";
  EXPECT_EQ(byte_position(3, text, 2), (TomlPosition{3, 2, 1}));
  EXPECT_EQ(byte_position(3, text, 4), (TomlPosition{3, 2, 2})) << "after a character of two bytes";
  EXPECT_EQ(byte_position(3, text, 8), (TomlPosition{3, 4, 1}));
  EXPECT_EQ(byte_position(3, text, text.size()), (TomlPosition{3, 4, 2})) << "the end";
}

/// The value of the only key of a document.
Node value_of(const std::string& source) {
  Diagnostics diagnostics;
  const auto document = parse_source(diagnostics.add_file("a.toml", source), source, diagnostics);
  diagnostics.raise();
  return document->entries.front().value;
}

/// The place of byte `byte` of the only string of a document.
TomlPosition place_in(const std::string& source, size_t byte) {
  return position_in_text(source, value_of(source).position, byte);
}

TEST(TomlPlaces, OfAByteInAStringAreWhereItIsWritten) {
  for (const std::string& source :
       std::vector<std::string>{R"(w = "ab!")", R"(w = 'a\b!')", "w = \"\"\"ab!\"\"\"", R"(w = "\t\"\\\n!")",
                                R"(w = "\u00e9\u0041\u20ac\U0001F600!")", "w = \"\u00e9\u20ac\U0001F600!\"",
                                "w = \"\"\"\nab\n!\"\"\"", "w = \"\"\"\r\na\r\nb!\"\"\"", "w = '''\na'b''c\n\\!'''",
                                "w = \"\"\"a \"quoted\" b\\\n   \n  !\"\"\"", "\n\n  w =    'x!'  # a comment!"}) {
    const std::string text = value_of(source).text;
    const size_t mark = text.find('!');
    ASSERT_NE(mark, std::string::npos) << source;
    EXPECT_EQ(place_in(source, mark), byte_position(0, source, source.find('!'))) << source;
  }
}

TEST(TomlPlaces, AfterTheLastByteAreTheClosingQuotes) {
  EXPECT_EQ(place_in(R"(w = "abc")", 3), (TomlPosition{0, 1, 9}));
  EXPECT_EQ(place_in("w = ''", 0), (TomlPosition{0, 1, 6}));
  EXPECT_EQ(place_in("w = '''\nabc'''", 3), (TomlPosition{0, 2, 4}));
}

TEST(TomlPlaces, WithinACharacterAreItsFirstByte) {
  for (const size_t byte : {1, 2, 3}) EXPECT_EQ(place_in("w = \"a\u20acb\"", byte), (TomlPosition{0, 1, 7})) << byte;
  for (const size_t byte : {1, 2}) EXPECT_EQ(place_in("w = \"a\\u00e9b\"", byte), (TomlPosition{0, 1, 7})) << byte;
  EXPECT_EQ(place_in("w = \"a\\u00e9b\"", 3), (TomlPosition{0, 1, 13}));
}

TEST(TomlPlaces, InAWordOfAnOverrideCountFromItsStart) {
  Diagnostics diagnostics;
  Node root;
  apply_override(root, "w=ab?", diagnostics);
  const Node& word = root.entries.front().value;
  ASSERT_EQ(word.text, "ab?");
  const std::string& shown = diagnostics.source_text(word.position.source);
  EXPECT_EQ(position_in_text(shown, word.position, 2),
            (TomlPosition{word.position.source, 1, 1 + int(shown.find('?'))}));
}

}  // namespace
}  // namespace wmtp
