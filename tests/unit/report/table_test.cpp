// Tables as text, JSON and CSV.
#include "report/table.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "base/error.hpp"
#include "report/curve.hpp"
#include "report/terminal.hpp"

namespace wmtp {
namespace {

const Table sample_table{
    {"id", "name", "loss"}, {{1, "short", 2.5}, {20, "a \"longer\", name\nof two lines", nullptr}}, false};

std::string printed(const Table& table, TableFormat format) {
  std::ostringstream out;
  print_table(out, table, format);
  return out.str();
}

TEST(Table, AlignsNumbersRightAndTextLeft) {
  EXPECT_EQ(printed(sample_table, TableFormat::text),
            "id  name                            loss\n"
            " 1  short                            2.5\n"
            "20  a \"longer\", name\\nof two lines     -\n");
}

TEST(Table, IsNotCutWithoutATerminal) {
  EXPECT_EQ(terminal_columns(std::cerr), 0u);
  const Table wide{{"text"}, {{std::string(500, 'x')}}, false};
  EXPECT_EQ(printed(wide, TableFormat::text).size(), 5 + 501u);
}

TEST(Table, IsRefusedIfOneLongCellMakesEveryLineTooLong) {
  Table long_lines{{"text", "n"}, {}, false};
  long_lines.rows.resize(1000, Row{"x", 1});
  long_lines.rows[500][0] = std::string(1 << 20, 'x');
  EXPECT_THROW(printed(long_lines, TableFormat::text), Error);
  EXPECT_NO_THROW(printed(long_lines, TableFormat::csv));
  std::ostringstream out;
  print_text_table(out, long_lines, 30);
  EXPECT_LT(out.str().size(), 100'000u);
}

TEST(Table, CutsTheWidestTextColumnToFitTheTerminal) {
  const Table wide{{"n", "long", "short"}, {{12345, std::string(50, 'x'), "abcdefgh"}}, false};
  std::ostringstream out;
  print_text_table(out, wide, 30);
  EXPECT_EQ(out.str(), "    n  long           short\n12345  xxxxxxxxxxxx…  abcdefgh\n");
}

TEST(Table, CountsCharactersRatherThanBytes) {
  const Table table{{"name", "n"}, {{"héé", 1}, {"hee", 2}}, false};
  EXPECT_EQ(printed(table, TableFormat::text), "name  n\nhéé   1\nhee   2\n");
}

TEST(Table, EscapesControlCharacters) { EXPECT_EQ(one_line("a\x1b[2Jb\tc"), "a\\x1b[2Jb\\tc"); }

TEST(Table, MentionsMoreRowsIfCapped) {
  Table table = sample_table;
  table.capped = true;
  EXPECT_NE(printed(table, TableFormat::text).find("more rows than the 2 shown"), std::string::npos);
}

TEST(Table, IsAnArrayOfObjectsInJson) {
  const auto json = Json::parse(printed(sample_table, TableFormat::json));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["loss"], 2.5);
  EXPECT_TRUE(json[1]["loss"].is_null());
  EXPECT_EQ(json[1]["name"], "a \"longer\", name\nof two lines");
  EXPECT_LT(printed(sample_table, TableFormat::json).find("\"id\""),
            printed(sample_table, TableFormat::json).find("\"name\""));
  EXPECT_EQ(Json::parse(printed({{"a"}, {}, false}, TableFormat::json)), Json::array());
}

TEST(Table, JsonHasNoNaNAndNoInvalidUtf8) {
  const Table odd{{"a", "b", "c"},
                  {{std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), "\xff\xfe"}},
                  false};
  const std::string text = printed(odd, TableFormat::json);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
  EXPECT_TRUE(Json::parse(text)[0]["a"].is_null());
}

TEST(Table, CsvIsQuotedByRfc4180) {
  EXPECT_EQ(printed(sample_table, TableFormat::csv),
            "id,name,loss\r\n1,short,2.5\r\n20,\"a \"\"longer\"\", name\nof two lines\",\r\n");
}

TEST(Table, CsvKeepsEveryDigit) {
  EXPECT_EQ(printed({{"v"}, {{0.1}, {1.0 / 3.0}}, false}, TableFormat::csv), "v\r\n0.1\r\n0.3333333333333333\r\n");
}

TEST(Curve, DrawsAFallingLineInAscii) {
  Curve line{"train/loss", {}};
  for (int i = 0; i <= 100; ++i) line.points.push_back({double(i), 10.0 - 0.1 * i});
  std::ostringstream out;
  print_curve(out, line, {"valid/loss", {{0, 10}, {100, 0}}}, false);
  const std::string text = out.str();
  EXPECT_EQ(text.find("       10 |o"), 0u) << text;
  EXPECT_NE(text.find("        0 |" + std::string(54, ' ')), std::string::npos) << text;
  EXPECT_NE(text.find("o\n          +---"), std::string::npos) << text;
  for (char c : text) EXPECT_LT(uint8_t(c), 0x80);
}

TEST(Curve, IsNotDrawnWithFewerThanTwoPoints) {
  std::ostringstream out;
  print_curve(out, {"train/loss", {{1, 1}}}, {"valid/loss", {}}, true);
  EXPECT_EQ(out.str(), "");
}

TEST(Curve, DrawsAFlatLine) {
  std::ostringstream out;
  print_curve(out, {"train/loss", {{1, 2}, {2, 2}}}, {"valid/loss", {}}, true);
  EXPECT_NE(out.str().find("train/loss"), std::string::npos);
}

}  // namespace
}  // namespace wmtp
