// TOML text as nodes in the order of the file, what is refused before it is parsed, and `--set` as an edit of nodes.
#include "experiment/toml/toml_source.hpp"

#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

using TomlFiles = DataTest;

Node parsed(const std::string& text) {
  Diagnostics diagnostics;
  const auto document = parse_source(diagnostics.add_file("a.toml", text), text, diagnostics);
  diagnostics.raise();
  return *document;
}

/// The mistakes of a text that has no document.
std::string refused(const std::string& text) {
  Diagnostics diagnostics;
  EXPECT_FALSE(parse_source(diagnostics.add_file("a.toml", text), text, diagnostics).has_value()) << text;
  return error_of(ExitStatus::usage, [&] { diagnostics.raise(); });
}

/// The node at "a.b"; fails the test if there is none.
Node at(const Node& root, const std::string& path) {
  const size_t dot = path.find('.');
  const Entry* const entry = root.find(path.substr(0, dot));
  if (entry == nullptr) ADD_FAILURE() << "no " << path;
  if (entry == nullptr) return {};
  return dot == std::string::npos ? entry->value : at(entry->value, path.substr(dot + 1));
}

std::string place_text(const TomlPosition& position) {
  return std::to_string(position.line) + ":" + std::to_string(position.column);
}

TEST(TomlSource, HasEveryKindOfValueInTheOrderOfTheFile) {
  const Node root = parsed(
      "z = true\ni = -3\nn = 0.5\ns = \"x\"\nl = [1, \"\u00e9\", 2]\nt = 2026-01-31\n[g]\nh = {k = 'v'}\n[a.b]\n");
  std::string keys;
  for (const Entry& entry : root.entries) keys += entry.key;
  EXPECT_EQ(keys, "zinsltga");
  using Kind = Node::Kind;
  EXPECT_TRUE(at(root, "z").kind == Kind::flag && at(root, "z").flag);
  EXPECT_TRUE(at(root, "i").kind == Kind::integer && at(root, "i").integer == -3);
  EXPECT_TRUE(at(root, "n").kind == Kind::number && at(root, "n").number == 0.5);
  EXPECT_TRUE(at(root, "s").kind == Kind::text && at(root, "s").text == "x");
  EXPECT_TRUE(at(root, "l").kind == Kind::list && at(root, "l").items.size() == 3);
  EXPECT_EQ(at(root, "t").kind, Kind::time);
  EXPECT_EQ(at(root, "g.h.k").text, "v");
  EXPECT_TRUE(at(root, "a.b").kind == Kind::table && at(root, "a.b").entries.empty());
}

TEST(TomlSource, KnowsTheLineAndColumnOfKeysValuesAndItems) {
  const Node root = parsed("a = 1\n\n  list = [\"\u00e9\", 2]\n[table]\nkey = {one = 1}\n");
  EXPECT_EQ(place_text(root.find("a")->position), "1:1");
  EXPECT_EQ(place_text(at(root, "a").position), "1:5");
  EXPECT_EQ(place_text(root.find("list")->position), "3:3");
  EXPECT_EQ(place_text(at(root, "list").items[0].position), "3:11");
  EXPECT_EQ(place_text(at(root, "list").items[1].position), "3:16") << "columns are characters";
  EXPECT_EQ(place_text(root.find("table")->position), "4:2");
  EXPECT_EQ(place_text(at(root, "table.key.one").position), "5:14");
}

TEST(TomlSource, ReportsTheFirstMistakeOfSyntaxAtItsPlace) {
  EXPECT_TRUE(has(refused("a = 1\nb = \nc = \n"), "a.toml:2:5: invalid TOML: "));
  const std::string twice = refused("a = 1\nb = 2\na = 3\n");
  EXPECT_TRUE(has(twice, "a.toml:3:") && has(twice, "invalid TOML: ")) << twice;
  EXPECT_TRUE(has(twice, "the rest of the file is checked once this is fixed")) << twice;
}

TEST(TomlSource, SaysWhatToDoAboutTheUsualMistakesOfSyntax) {
  for (const char* value : {"text", "novel.txt", "information", "[hello]", "True"})
    EXPECT_TRUE(has(refused("a = " + std::string(value) + "\n"), "write text in quotes, and true and false in lower"))
        << value << "\n"
        << refused("a = " + std::string(value) + "\n");
  for (const char* value : {"\"text", "'text"})
    EXPECT_TRUE(has(refused("a = " + std::string(value) + "\nb = 1\n"), "close the string on its line")) << value;
  EXPECT_TRUE(has(refused("a: 1\n"), "TOML writes key = value; the rest of the file is checked"));
  EXPECT_TRUE(has(refused("a = t\n"), "saw 't\\n'"));
}

TEST(TomlSource, ReportsTheFirstByteThatIsNoText) {
  EXPECT_TRUE(has(refused("a = 1\nb = \"\xff\"\n"), "a.toml:2:6: byte 11 is not valid UTF-8, wanted UTF-8 text"));
  EXPECT_TRUE(has(refused(std::string("a = 1\n\0\xff", 8)), "a.toml:2:1: byte 6 is NUL, wanted UTF-8 text"));
}

TEST(TomlSource, HoldsKeysOf64PartsAndNoMore) {
  const auto key_of = [](int parts) {
    std::string key = "a";
    for (int i = 1; i < parts; ++i) key += ".a";
    return key + " = 1\n";
  };
  EXPECT_EQ(parsed(key_of(64)).entries.size(), 1u);
  EXPECT_TRUE(has(refused(key_of(65)), "a.toml:1:128: found keys nested more than 64 deep"));
  const std::string brackets(64, '['), ends(64, ']');
  EXPECT_TRUE(has(refused("a = " + brackets + ends + "\n"), "a.toml:1:68: found keys nested more than 64 deep"));
  EXPECT_EQ(parsed("a = " + brackets.substr(1) + ends.substr(1) + "\n").entries.size(), 1u);
}

TEST(TomlSource, CountsNoDotsOfStringsAndComments) {
  const std::string dots(200, '.');
  const Node root = parsed("a = \"" + dots + "\" # " + dots + "\nb = '" + dots + "'\nc = \"\"\"\n\\\"\"\"\\\"" + dots +
                           "\"\"\"\nd = 1.5\n");
  EXPECT_EQ(at(root, "a").text, dots);
  EXPECT_EQ(at(root, "b").text, dots);
  EXPECT_EQ(at(root, "c").text, "\"\"\"\"" + dots);
  EXPECT_EQ(at(root, "d").number, 1.5);
}

TEST_F(TomlFiles, AreReadUpToTheirLimit) {
  const std::string most(max_source_bytes, '#');
  EXPECT_EQ(read_source(write("a.toml", most), "a.toml"), most);
  const std::string text = error_of(ExitStatus::usage, [&] { read_source(write("a.toml", most + "#"), "shown.toml"); });
  EXPECT_TRUE(has(text, "shown.toml: found 16385 bytes, wanted at most 16384")) << text;
}

TEST_F(TomlFiles, ThatAreNotThereAreNamedAsTheyWereTyped) {
  const std::string text = error_of(ExitStatus::usage, [&] { read_source(folder_ / "absent.toml", "./absent.toml"); });
  EXPECT_TRUE(has(text, "./absent.toml: no such file")) << text;
}

/// The document after these overrides; the text of the mistakes if there are any.
std::pair<Node, std::string> edited(const std::string& text, const std::vector<std::string>& overrides) {
  Node root = parsed(text);
  Diagnostics diagnostics;
  diagnostics.add_file("a.toml", text);
  for (const std::string& one : overrides) apply_override(root, one, diagnostics);
  return {root, diagnostics.count() == 0 ? "" : error_of(ExitStatus::usage, [&] { diagnostics.raise(); })};
}

TEST(TomlOverride, ReplacesOneKeyAndKeepsItsNeighbours) {
  const auto [root, mistakes] = edited("[a]\nx = 1\ny = 2\n", {"a.x=3", "a.z.w = \"new\"", "b=[1]"});
  EXPECT_EQ(mistakes, "");
  EXPECT_EQ(at(root, "a.x").integer, 3);
  EXPECT_EQ(at(root, "a.y").integer, 2);
  EXPECT_EQ(at(root, "a.z.w").text, "new");
  EXPECT_EQ(at(root, "b").items.size(), 1u);
  EXPECT_EQ(at(root, "a.x").position.source, 1) << "the place is that of the override";
  EXPECT_EQ(at(root, "a.y").position.source, 0);
}

TEST(TomlOverride, ReplacesATableThatIsWrittenAsAValue) {
  for (const std::string value : {"{x=3}", "{}", "{x = 3, z = 4}"}) {
    const auto [root, mistakes] = edited("[a]\nx = 1\ny = 2\n", {"a=" + value});
    EXPECT_EQ(mistakes, "");
    EXPECT_EQ(root.find("a")->value.find("y"), nullptr) << value;
  }
}

TEST(TomlOverride, TakesAWordWithoutQuotesAsText) {
  for (const std::string word : {"full_shard", "run:base", "/tmp/x.db", "~/x", "2nd", "a@b", "*.py"})
    EXPECT_EQ(at(edited("", {"k=" + word}).first, "k").text, word);
  EXPECT_EQ(at(edited("", {"k=true"}).first, "k").kind, Node::Kind::flag) << "what is TOML stays so";
  EXPECT_EQ(at(edited("", {"k=1e3"}).first, "k").number, 1000);
}

TEST(TomlOverride, IsRefusedWithACaretInItsText) {
  EXPECT_EQ(edited("name = 1\n", {"name.x=2"}).second,
            "--set name.x=2: \"name\" is not a table, so no key can be set in it\n"
            "    --set name.x=2\n"
            "          ^");
  const std::string both = edited("", {"a b=1", "c"}).second;
  EXPECT_TRUE(has(both, "--set a b=1: found the key \"a b\", wanted names joined by dots")) << both;
  EXPECT_TRUE(has(both, "--set c: found no value, wanted key=value")) << both;
}

}  // namespace
}  // namespace wmtp
