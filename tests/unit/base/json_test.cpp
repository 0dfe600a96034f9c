#include "base/json.hpp"

#include <gtest/gtest.h>

#include "base/json_parse.hpp"
#include "base/json_text.hpp"
#include "base/time_use.hpp"

namespace wmtp {
namespace {

std::string refused(const std::string& text) {
  try {
    return "accepted: " + parse_strict_json(text, "a.json").dump().substr(0, 80);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::data);
    return error.what();
  }
}

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

std::string many_keys(int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += "\"" + std::to_string(i) + "\":{},";
  return text + "\"a\":0}";
}

TEST(StrictJson, IsWhatTheTextSays) {
  for (const char* text : {"null", "true", "-3", "3", "1.5", "\"a\\u00e9\"", "[]", "{}", "[[],{},[1,[2]],\"\"]",
                           "{\"a\":{\"a\":1,\"b\":[{\"a\":null}]},\"b\":{}}", "18446744073709551615"})
    EXPECT_EQ(parse_strict_json(text, "").dump(), Json::parse(text).dump()) << text;
}

TEST(StrictJson, RefusesRepeatedKeysInOneObject) {
  EXPECT_EQ(refused("{\"a\": 1, \"a\": 2}"), "a.json: key \"a\" occurs twice in one object; keep one of them");
  EXPECT_EQ(refused("[{\"x\": {\"a\": {}, \"a\": []}}]"),
            "a.json: key \"a\" occurs twice in one object; keep one of them");
  EXPECT_EQ(refused("[{\"a\": 1}, {\"a\": 1}]"), "accepted: [{\"a\":1},{\"a\":1}]");
}

TEST(StrictJson, RefusesWhatIsNotJson) {
  EXPECT_EQ(refused("{\"a\": 1"), "a.json: invalid JSON at byte 8; the file is damaged or not JSON");
  EXPECT_EQ(refused("[1] 2"), "a.json: invalid JSON at byte 5; the file is damaged or not JSON");
  EXPECT_EQ(refused(""), "a.json: invalid JSON at byte 1; the file is damaged or not JSON");
  EXPECT_EQ(refused("[1e999]"),
            "a.json: a number is out of range; the file is damaged, or was not written by this program");
}

TEST(StrictJson, RefusesDeepNesting) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + "1" + std::string(depth, ']'); };
  EXPECT_EQ(refused(nested(32)).substr(0, 9), "accepted:");
  EXPECT_EQ(refused(nested(33)), "a.json: nested more than 32 levels deep; the file was not written by this program");
  EXPECT_EQ(refused(std::string(5'000'000, '[')), refused(nested(33)));
  EXPECT_EQ(refused(repeated("{\"a\":", 40)), refused(nested(33)));
}

TEST(JsonText, IsAValueAsItIsWrittenAndTheBeginningOfALongOne) {
  EXPECT_EQ(json_text({{"a", {1, nullptr}}}), R"({"a":[1,null]})");
  EXPECT_EQ(json_text("\xc3\xa9\n"), R"("\u00e9\n")");
  EXPECT_EQ(json_text("\xff"), R"("\ufffd")");
  EXPECT_EQ(json_text(repeated("a", 198)).size(), 200u);
  EXPECT_EQ(json_text(repeated("a", 199)), "\"" + repeated("a", 198) + "…");
}

TEST(StrictJson, TakesTimeInProportionToItsLength) {
  const auto seconds = [](int scale) {
    const double before = processor_seconds();
    for (const std::string& text :
         {"[" + repeated("{},", 400'000 * scale) + "{}]", "[" + repeated("[],", 400'000 * scale) + "[]]",
          "{\"a\":[" + repeated("{\"b\":0},", 150'000 * scale) + "0]}"})
      EXPECT_EQ(refused(text).substr(0, 9), "accepted:");
    EXPECT_EQ(refused(many_keys(100'000 * scale)).substr(0, 9), "accepted:");
    return processor_seconds() - before;
  };
  EXPECT_LT(seconds(4), 8 * seconds(1)) << "in proportion to the square, it is 16 times as much";
}

TEST(JsonByRules, KeepsTheOrderOfKeysIfAskedAndTheLastOfRepeatedOnes) {
  const std::string text = "{\"b\":{\"z\":1,\"y\":[{\"d\":0,\"c\":0}],\"z\":[2]},\"a\":null}";
  EXPECT_EQ(parse_json<OrderedJson>(text, {}).dump(), "{\"b\":{\"z\":[2],\"y\":[{\"d\":0,\"c\":0}]},\"a\":null}");
  EXPECT_EQ(parse_json<OrderedJson>(text, {}), OrderedJson::parse(text));
  EXPECT_EQ(parse_json<OrderedJson>(many_keys(400'000), {}).size(), 400'001u);
}

TEST(JsonByRules, LeavesOutWhatIsNotWanted) {
  JsonRules rules;
  rules.too_deep = [] { FAIL(); };
  rules.wants = [](size_t depth, const std::string& key) { return depth > 0 || key == "text"; };
  const std::string text = "{\"x\":{\"text\":[1,{\"a\":2}]},\"text\":{\"a\":1,\"a\":[2]},\"y\":3}";
  EXPECT_EQ(parse_json<Json>(text, rules).dump(), "{\"text\":{\"a\":[2]}}");
}

TEST(JsonByRules, PassTheEventsOfAMemberToItsReader) {
  struct Passed : nlohmann::json_sax<Json> {
    std::string events;
    bool null() override { return (events += "null ", true); }
    bool boolean(bool) override { return (events += "bool ", true); }
    bool number_integer(int64_t value) override { return (events += std::to_string(value) + " ", true); }
    bool number_unsigned(uint64_t value) override { return (events += std::to_string(value) + " ", true); }
    bool number_float(double, const std::string& digits) override { return (events += digits + " ", true); }
    bool string(std::string& text) override { return (events += text + " ", true); }
    bool binary(Json::binary_t&) override { return true; }
    bool start_object(size_t) override { return (events += "{ ", true); }
    bool key(std::string& name) override { return (events += name + ": ", true); }
    bool end_object() override { return (events += "} ", true); }
    bool start_array(size_t) override { return (events += "[ ", true); }
    bool end_array() override { return (events += "] ", true); }
    bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }
  } passed;
  JsonRules rules;
  rules.reader = [&](size_t depth, const std::string& key) { return depth == 1 && key == "t" ? &passed : nullptr; };
  const std::string text = R"({"m":{"a":[1],"t":{"x":[1,-2,{"t":null}],"y":true},"b":{}},"t":[2],"n":{"t":"s","c":3}})";
  EXPECT_EQ(parse_json<Json>(text, rules).dump(), R"({"m":{"a":[1],"b":{},"t":null},"n":{"c":3,"t":null},"t":[2]})");
  EXPECT_EQ(passed.events, "{ x: [ 1 -2 { t: null } ] y: bool } s ");
}

}  // namespace
}  // namespace wmtp
