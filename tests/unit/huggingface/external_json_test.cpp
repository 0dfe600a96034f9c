#include "huggingface/external_json.hpp"

#include "support/refusal.hpp"

namespace wmtp::test {
namespace {

TEST(ExternalJson, RefusesUnknownKeysUnlessTheirValuesAreOff) {
  const auto is_off = [](const Json& value) { return value.is_null() || value == 0; };
  const auto wanted = [](const std::string& key) { return "no " + key; };
  ExternalJson sound({{"dim", 8}, {"later", nullptr}, {"other", 0}}, "x.json");
  sound.refuse_unknown({"dim", "layers"}, is_off, wanted);
  EXPECT_NO_THROW(sound.finish("read the manual"));
  ExternalJson strange({{"dim", 8}, {"dims", 9}, {"later", false}, {"list", Json::array()}}, "x.json");
  strange.refuse_unknown({"dim", "layers"}, is_off, wanted);
  EXPECT_EQ(refusal(ExitStatus::data, [&] { strange.finish("read the manual"); }),
            "x.json: \n  dims is 9; wanted no dims\n  later is false; wanted no later\n  list is []; wanted no list\n"
            "read the manual");
}

}  // namespace
}  // namespace wmtp::test
