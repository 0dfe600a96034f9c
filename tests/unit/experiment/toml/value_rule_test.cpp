// Type, range and choices of a value: what is taken, and what is found and wanted where it is refused.
#include "experiment/toml/value_rule.hpp"

#include "experiment/toml/toml_source.hpp"
#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

struct Checked {
  std::optional<Value> value;
  std::string mistakes;
};

/// `key = text`, checked by the rule.
Checked checked(const ValueRule& rule, const std::string& text) {
  const std::string source = "key = " + text + "\n";
  Diagnostics diagnostics;
  const auto document = parse_source(diagnostics.add_file("a.toml", source), source, diagnostics);
  diagnostics.raise();
  Checked result{check_value(document->entries.front().value, rule, "[t] key", diagnostics), ""};
  EXPECT_EQ(result.value.has_value(), diagnostics.count() == 0) << text;
  if (!result.value) result.mistakes = error_of(ExitStatus::usage, [&] { diagnostics.raise(); });
  return result;
}

void expect_taken(const ValueRule& rule, const std::string& text, const Value& wanted) {
  const Checked found = checked(rule, text);
  EXPECT_EQ(found.mistakes, "") << text;
  EXPECT_TRUE(found.value == wanted) << text;
}

void expect_refused(const ValueRule& rule, const std::string& text, const std::string& message) {
  EXPECT_TRUE(has(checked(rule, text).mistakes, "a.toml:1:7: [t] key: " + message + "\n"))
      << text << "\n"
      << checked(rule, text).mistakes;
}

ValueRule of(ValueType type) {
  ValueRule rule;
  rule.type = type;
  return rule;
}

ValueRule between(ValueType type, double min, double max) {
  ValueRule rule = of(type);
  rule.min = min;
  rule.max = max;
  return rule;
}

ValueRule one_of(std::vector<std::string> choices, ValueType type = ValueType::text) {
  ValueRule rule = of(type);
  rule.choices = std::move(choices);
  return rule;
}

constexpr double infinity = std::numeric_limits<double>::infinity();
using Texts = std::vector<std::string>;
using Numbers = std::vector<double>;

TEST(ValueRule, TakesAValueOfItsType) {
  expect_taken(of(ValueType::flag), "true", true);
  expect_taken(of(ValueType::integer), "-3", int64_t{-3});
  expect_taken(of(ValueType::number), "0.5", 0.5);
  expect_taken(of(ValueType::number), "3", 3.0);  // an integer is a number
  expect_taken(of(ValueType::text), "\"x\"", std::string("x"));
  expect_taken(of(ValueType::texts), "['a', 'b']", Texts{"a", "b"});
  expect_taken(of(ValueType::numbers), "[1, 0.5]", Numbers{1, 0.5});
  expect_taken(of(ValueType::integers), "[1, 5]", Numbers{1, 5});
  expect_taken(of(ValueType::text_or_integer), "'x'", std::string("x"));
  expect_taken(of(ValueType::text_or_integer), "4", int64_t{4});
  expect_taken(of(ValueType::text_or_number), "'x'", std::string("x"));
  expect_taken(of(ValueType::text_or_number), "4", 4.0);
  expect_taken(of(ValueType::flag_or_text), "'x'", std::string("x"));
  expect_taken(of(ValueType::flag_or_text), "false", false);
}

TEST(ValueRule, RefusesAValueOfAnotherTypeWithWhatItFound) {
  const auto refuse = [](ValueType type, const std::string& text, const std::string& found) {
    expect_refused(of(type), text, found);
  };
  refuse(ValueType::flag, "1", "found the integer 1, wanted true or false");
  refuse(ValueType::integer, "1.0", "found the number 1.0, wanted an integer");
  refuse(ValueType::integer, "1e3", "found the number 1000.0, wanted an integer");
  refuse(ValueType::number, "'1'", "found the string \"1\", wanted a number");
  refuse(ValueType::number, "true", "found true, wanted a number");
  refuse(ValueType::text, "[]", "found a list of length 0, wanted a string");
  refuse(ValueType::text, "{a = 1}", "found a table, wanted a string");
  refuse(ValueType::text, "2026-01-31", "found a date or time, wanted a string");
  refuse(ValueType::texts, "'a'", "found the string \"a\", wanted a list of strings");
  refuse(ValueType::numbers, "1", "found the integer 1, wanted a list of numbers");
  refuse(ValueType::integers, "1", "found the integer 1, wanted a list of integers");
  EXPECT_TRUE(has(checked(of(ValueType::integers), "[1, 2.0]").mistakes,
                  "a.toml:1:11: [t] key: found the number 2.0, wanted a list of integers\n"));
  refuse(ValueType::text_or_integer, "0.5", "found the number 0.5, wanted string or integer");
  refuse(ValueType::text_or_number, "true", "found true, wanted string or number");
  refuse(ValueType::flag_or_text, "1", "found the integer 1, wanted true, false or string");
}

TEST(ValueRule, IncludesItsBoundsUnlessItSaysOtherwise) {
  ValueRule rule = between(ValueType::number, 0, 1);
  expect_taken(rule, "0", 0.0);
  expect_taken(rule, "1.0", 1.0);
  expect_refused(rule, "1.5", "found the number 1.5, wanted a number from 0 to 1");
  rule.above = rule.below = true;
  expect_taken(rule, "0.5", 0.5);
  expect_refused(rule, "0", "found the integer 0, wanted a number in (0, 1)");
  expect_refused(rule, "1", "found the integer 1, wanted a number in (0, 1)");
  const ValueRule least = between(ValueType::integer, 1, infinity);
  expect_taken(least, "9223372036854775807", std::numeric_limits<int64_t>::max());
  expect_refused(least, "0", "found the integer 0, wanted an integer at least 1");
}

TEST(ValueRule, RefusesWhatIsNotFiniteWithoutAnyBound) {
  expect_refused(of(ValueType::number), "nan", "found the number nan, wanted a number");
  expect_refused(of(ValueType::number), "-inf", "found the number -inf, wanted a number");
  EXPECT_TRUE(has(checked(of(ValueType::numbers), "[1, inf]").mistakes, "a.toml:1:11: [t] key: found the number inf"));
}

TEST(ValueRule, WritesItsRangeAsItIsRead) {
  ValueRule rule = between(ValueType::number, 0, 65536);
  EXPECT_EQ(range_text(rule), "0 to 65536");
  rule.above = true;
  EXPECT_EQ(range_text(rule), "(0, 65536]");
  rule.above = false;
  rule.below = true;
  EXPECT_EQ(range_text(rule), "[0, 65536)");
  EXPECT_EQ(range_text(between(ValueType::number, 0.5, infinity)), "at least 0.5");
  EXPECT_EQ(range_text(between(ValueType::number, -infinity, 2)), "at most 2");
  rule = between(ValueType::number, 0, infinity);
  rule.above = true;
  EXPECT_EQ(range_text(rule), "above 0");
  rule = between(ValueType::number, -infinity, 1);
  rule.below = true;
  EXPECT_EQ(range_text(rule), "below 1");
  EXPECT_EQ(range_text(of(ValueType::number)), "");
}

TEST(ValueRule, TakesAChoiceByAnyOfItsNames) {
  ValueRule rule = one_of({"adamw", "muon"});
  rule.synonyms = {{"adam", "adamw"}};
  rule.planned = {"lion"};
  expect_taken(rule, "'muon'", std::string("muon"));
  expect_taken(rule, "'adam'", std::string("adamw"));
  expect_refused(rule, "'lion'", "\"lion\" is not supported yet, wanted one of \"adamw\" and \"muon\"");
  const std::string typo = checked(rule, "'muom'").mistakes;
  EXPECT_TRUE(has(typo, "found the string \"muom\", wanted one of") && has(typo, "did you mean \"muon\"?")) << typo;
  EXPECT_FALSE(has(checked(rule, "'shampoo'").mistakes, "did you mean")) << "that is no typo";
}

TEST(ValueRule, RefusesPlannedValuesOfEveryType) {
  ValueRule rule = one_of({"none", "full"}, ValueType::text_or_number);
  rule.planned = {"true", "a number"};
  EXPECT_TRUE(has(checked(rule, "true").mistakes, "[t] key: true is not supported yet, wanted "));
  EXPECT_TRUE(has(checked(rule, "0.5").mistakes, "[t] key: a number is not supported yet, wanted "));
  expect_taken(rule, "'full'", std::string("full"));
}

TEST(ValueRule, RefusesAnEmptyOneAndANul) {
  ValueRule rule = of(ValueType::text);
  expect_taken(rule, "''", std::string());
  EXPECT_TRUE(has(checked(rule, R"("a\u0000b")").mistakes, "a string must not contain NUL"));
  rule.may_be_empty = false;
  expect_refused(rule, "''", "found the string \"\", wanted a non-empty string");
  rule.type = ValueType::texts;
  expect_refused(rule, "[]", "found a list of length 0, wanted a non-empty list of non-empty strings");
}

TEST(ValueRule, CountsTheNumbersOfAList) {
  ValueRule rule = of(ValueType::numbers);
  rule.count = 2;
  expect_taken(rule, "[0.9, 1]", Numbers{0.9, 1});
  expect_refused(rule, "[0.9]", "found a list of length 1, wanted a list of two numbers");
  expect_refused(rule, "[1, 2, 3]", "found a list of length 3, wanted a list of two numbers");
}

TEST(ValueRule, ReportsEveryItemOfAListThatIsWrong) {
  const std::string text = checked(of(ValueType::texts), "['a', 3, 'b', true]").mistakes;
  EXPECT_TRUE(has(text, "a.toml:1:13: [t] key: found the integer 3, wanted a list of strings")) << text;
  EXPECT_TRUE(has(text, "a.toml:1:21: [t] key: found true, wanted a list of strings")) << text;
}

ValueRule of_tables() {
  ValueRule rule = of(ValueType::tables);
  ValueRule name = of(ValueType::text);
  name.may_be_empty = false;
  rule.fields = {{"name", name}, {"share", between(ValueType::number, 0, 1)}};
  return rule;
}

TEST(ValueRule, ReadsTablesByTheirFields) {
  const std::vector<Fields> wanted{{{{"name", "a"}}, {{"share", 0.5}}, {}}, {{{"name", "b"}}, {}, {}}};
  expect_taken(of_tables(), "[{name = 'a', share = 0.5}, {name = 'b'}]", wanted);
}

TEST(ValueRule, ReportsEveryMistakeOfItsTables) {
  const std::string text = checked(of_tables(), "[{share = 2}, {name = '', shar = 1}, 3]").mistakes;
  for (const std::string part : {"a.toml:1:8: [t] key: a table lacks name",
                                 "a.toml:1:17: [t] key.share: found the integer 2, wanted a number "
                                 "from 0 to 1",
                                 "a.toml:1:29: [t] key.name: found the string \"\", wanted a non-empty string",
                                 "a.toml:1:33: [t] key: unknown key \"shar\"", "known keys: name and share",
                                 "a.toml:1:44: [t] key: found the integer 3, wanted list of tables"})
    EXPECT_TRUE(has(text, part)) << part << "\nin\n" << text;
}

TEST(ValueRule, SaysWhatItWants) {
  EXPECT_EQ(wanted(one_of({"a"})), "\"a\"");
  EXPECT_EQ(wanted(one_of({"a", "b", "c"})), "one of \"a\", \"b\" and \"c\"");
  EXPECT_EQ(wanted(one_of({"a", "b"}, ValueType::texts)), "a list of values from \"a\" and \"b\"");
  EXPECT_EQ(wanted(one_of({"a", "b"}, ValueType::flag_or_text)), "true, false, or \"a\" and \"b\"");
  ValueRule share = one_of({"none", "full"}, ValueType::text_or_number);
  share.min = 0;
  share.max = 1;
  EXPECT_EQ(wanted(share), "\"none\", \"full\", or a number from 0 to 1");
  share.type = ValueType::text_or_integer;
  EXPECT_EQ(wanted(share), "\"none\", \"full\", or an integer from 0 to 1");
}

TEST(ValueRule, WritesAValueThatIsReadAgainAsTheSame) {
  const auto expect_written = [](ValueType type, const Value& value, const std::string& text) {
    EXPECT_EQ(toml_text(value), text);
    ValueRule rule = type == ValueType::tables ? of_tables() : of(type);
    expect_taken(rule, text, value);
  };
  expect_written(ValueType::flag, true, "true");
  expect_written(ValueType::integer, std::numeric_limits<int64_t>::min(), "-9223372036854775808");
  expect_written(ValueType::number, 10000.0, "10000.0");
  expect_written(ValueType::number, 0.1, "0.1");
  expect_written(ValueType::number, 1e-5, "1e-5");
  expect_written(ValueType::number, 1.5e300, "1.5e+300");
  expect_written(ValueType::number, 0.0, "0.0");
  expect_written(ValueType::text, std::string("a \"b\" \\ \n\t\x1b\x7f \u00e9"),
                 R"("a \"b\" \\ \n\u0009\u001B\u007F é")");
  expect_written(ValueType::texts, Texts{"a", "\""}, R"(["a", "\""])");
  expect_written(ValueType::numbers, Numbers{1, 0.95}, "[1, 0.95]");
  expect_written(ValueType::integers, Numbers{1, 3}, "[1, 3]");
  expect_written(ValueType::tables, std::vector<Fields>{{{{"name", "a"}}, {{"share", 1}}, {}}},
                 R"([{name = "a", share = 1}])");
}

ValueRule number_or_table() {
  ValueRule rule = between(ValueType::number, 0, 1);
  rule.fields = {{"from", between(ValueType::number, 0, 1)}, {"steps", between(ValueType::integer, 1, 100)}};
  rule.required_fields = 2;
  return rule;
}

TEST(ValueRule, TakesANumberOrATable) {
  expect_taken(number_or_table(), "0.5", 0.5);
  expect_taken(number_or_table(), "{from = 1, steps = 10}", Fields{{}, {{"from", 1}, {"steps", 10}}, {}});
  EXPECT_EQ(toml_text(Fields{{}, {{"from", 0.25}, {"steps", 10}}, {}}), "{from = 0.25, steps = 10}");
  EXPECT_TRUE(has(checked(number_or_table(), "2").mistakes,
                  "found the integer 2, wanted a number, or a table of from and steps, from 0 to 1"));
  EXPECT_TRUE(has(checked(number_or_table(), "{from = 2}").mistakes, "from: found the integer 2"));
  EXPECT_TRUE(has(checked(number_or_table(), "{from = 0}").mistakes, "a table lacks steps"));
  EXPECT_TRUE(has(checked(number_or_table(), "{from = 0, steps = 1.5}").mistakes, "wanted an integer from 1 to 100"));
}

TEST(ValueRule, TakesListsOfNumbersInTables) {
  ValueRule rule = between(ValueType::numbers, 0, 1), weights = rule;
  rule.fields = {{"step", between(ValueType::integer, 1, 100)}, {"weights", weights}};
  rule.required_fields = 2;
  expect_taken(rule, "[1, 0.5]", Numbers{1, 0.5});
  const std::vector<Fields> points{{{}, {{"step", 3}}, {{"weights", {1, 0.5}}}}};
  expect_taken(rule, "[{step = 3, weights = [1, 0.5]}]", points);
  EXPECT_EQ(toml_text(points), "[{step = 3, weights = [1, 0.5]}]");
  EXPECT_TRUE(has(checked(rule, "[{step = 3}]").mistakes, "a table lacks weights"));
  EXPECT_TRUE(has(checked(rule, "true").mistakes, "wanted a list of numbers or of tables"));
}

}  // namespace
}  // namespace wmtp
