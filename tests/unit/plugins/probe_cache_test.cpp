#include "plugins/probe_cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "plugins/description_json.hpp"
#include "support/temporary_folder.hpp"

namespace wmtp {
namespace {

using test::TemporaryFolder;

PluginDescription rho1() {
  PluginDescription description;
  description.name = "rho1";
  description.version = "1.0";
  description.summary = "keeps some tokens";
  description.needs = PluginNeeds{
      {"policy.loss", "reference.loss"}, {{"return", "mlp", "score"}}, true, false, WeighingMoment::head, true};
  description.path = "/plugins/rho1.so";
  description.sha256 = "00ff";
  description.options = {
      {"keep", OptionSpec::Type::number, 1.0, 0.0, 1.0, {}, "share"},
      {"top", OptionSpec::Type::integer, int64_t{3}, 1.0, std::nullopt, {}, "how many"},
      {"per_rank", OptionSpec::Type::flag, false, std::nullopt, std::nullopt, {}, "here"},
      {"mode", OptionSpec::Type::text, std::string("signed"), std::nullopt, std::nullopt, {"signed", "other"}, "score"},
      {"targets", OptionSpec::Type::texts, std::vector<std::string>{"wq"}, std::nullopt, std::nullopt, {}, "where"}};
  return description;
}

TEST(DescriptionJson, RoundTripsEveryType) {
  const PluginDescription before = rho1();
  const PluginDescription after = Json::parse(Json(before).dump());
  EXPECT_EQ(Json(after), Json(before));
  EXPECT_EQ(after.needs, before.needs);
  PluginDescription wrapper = rho1();
  wrapper.needs.reset();
  EXPECT_FALSE(Json(wrapper).get<PluginDescription>().needs);
  ASSERT_EQ(after.options.size(), 5U);
  EXPECT_EQ(after.options[0].default_value, OptionValue(1.0)) << "a whole number must stay a double";
  EXPECT_EQ(after.options[1].default_value, OptionValue(int64_t{3}));
  EXPECT_FALSE(after.options[1].max.has_value());
  EXPECT_EQ(after.options[4].default_value, before.options[4].default_value);
}

TEST(DescriptionJson, RefusesHeadsAndNamesOfEarlierVersions) {
  const nlohmann::json needs = *rho1().needs;
  EXPECT_EQ(needs["heads"], (nlohmann::json{{{"name", "return"}, {"kind", "mlp"}, {"meaning", "score"}}}));
  EXPECT_EQ(needs["when"], "head");
  for (const auto& [key, earlier] : {std::pair<const char*, nlohmann::json>{"heads", {"return (mlp, score)"}},
                                     {"when", ""},
                                     {"when", "later"},
                                     {"when", 2}}) {
    nlohmann::json changed = needs;
    changed[key] = earlier;
    EXPECT_ANY_THROW(changed.get<PluginNeeds>()) << changed;
  }
}

TEST(ProbeCache, RemembersAFileUntilItChanges) {
  const TemporaryFolder folder;
  const ProbeCache cache(folder.path() / "deep" / "plugins", "0.1");
  const FileStamp stamp{folder.write("rho1.so", "x"), 1, 42};
  EXPECT_FALSE(cache.find(stamp).has_value());
  cache.keep(stamp, rho1());
  ASSERT_TRUE(cache.find(stamp).has_value());
  EXPECT_EQ(Json(*cache.find(stamp)), Json(rho1()));

  EXPECT_FALSE(cache.find({stamp.path, 2, 42}).has_value()) << "another size";
  EXPECT_FALSE(cache.find({stamp.path, 1, 43}).has_value()) << "another time";
  EXPECT_FALSE(cache.find({folder.path() / "other.so", 1, 42}).has_value()) << "another path";
  EXPECT_FALSE(ProbeCache(folder.path() / "deep" / "plugins", "0.2").find(stamp).has_value()) << "another version";
}

TEST(DescriptionJson, RoundTripsSettingsAndAnswersWithTheirTypes) {
  const PluginSetting before{rho1(),
                             {{"keep", 1.0},
                              {"top", int64_t{3}},
                              {"per_rank", true},
                              {"mode", std::string("a \"b\"\n")},
                              {"targets", std::vector<std::string>{}}}};
  const PluginSetting after = Json::parse(Json(before).dump());
  EXPECT_EQ(after.options, before.options);
  EXPECT_EQ(after.description.path, before.description.path);
  EXPECT_EQ(after.description.sha256, before.description.sha256);
  const PluginCheckResult mistake = Json(PluginCheckResult{{}, OptionMistake{true, "mode", "no", 3}});
  ASSERT_TRUE(mistake.mistake);
  EXPECT_TRUE(mistake.mistake->is_inner_option);
  EXPECT_EQ(mistake.mistake->at, 3);
  EXPECT_EQ(Json(PluginCheckResult{*rho1().needs, {}}).get<PluginCheckResult>().needs, rho1().needs);
}

TEST(ProbeCache, RemembersNeedsUntilTheFileOrTheQuestionChanges) {
  const TemporaryFolder folder;
  const ProbeCache cache(folder.path() / "plugins", "0.1");
  const FileStamp stamp{folder.write("rho1.so", "x"), 1, 42};
  cache.keep_reply(stamp, "keep 0.5", *rho1().needs);
  EXPECT_FALSE(cache.find_reply<PluginNeeds>(stamp, "keep 0.5")) << "the file was not described";
  cache.keep(stamp, rho1());
  cache.keep_reply(stamp, "keep 0.5", *rho1().needs);
  EXPECT_EQ(cache.find_reply<PluginNeeds>(stamp, "keep 0.5"), rho1().needs);
  EXPECT_FALSE(cache.find_reply<PluginNeeds>(stamp, "keep 0.6"));
  EXPECT_FALSE(cache.find_reply<PluginNeeds>({stamp.path, 2, 42}, "keep 0.5"));
  for (int i = 0; i < 100; ++i) cache.keep_reply(stamp, std::to_string(i), *rho1().needs);
  EXPECT_TRUE(cache.find_reply<PluginNeeds>(stamp, "99"));
  EXPECT_FALSE(cache.find_reply<PluginNeeds>(stamp, "keep 0.5")) << "the number of answers is not limited";
  cache.keep({stamp.path, 2, 42}, rho1());
  EXPECT_FALSE(cache.find_reply<PluginNeeds>({stamp.path, 2, 42}, "99")) << "needs of another version of the file";
}

TEST(ProbeCache, IsRebuiltWhenItIsDamaged) {
  const TemporaryFolder folder;
  const FileStamp stamp{folder.write("rho1.so", "x"), 1, 42};
  const std::filesystem::path cached = folder.path() / "plugins";
  const ProbeCache cache(cached, "0.1");
  cache.keep(stamp, rho1());
  const std::filesystem::path file = std::filesystem::directory_iterator(cached)->path() / "description.json";
  ASSERT_TRUE(std::filesystem::exists(file));
  for (const std::string damaged : {"", "{", "[]", "null", "\xff\xfe", "{\"key\": 3}", "{\"key\": {}, \"value\": 1}"}) {
    std::ofstream(file) << damaged;
    EXPECT_FALSE(cache.find(stamp).has_value()) << damaged;
    cache.keep(stamp, rho1());
    EXPECT_TRUE(cache.find(stamp).has_value()) << damaged;
  }
}

TEST(ProbeCache, ForgetsFilesThatAreGone) {
  const TemporaryFolder folder;
  const std::filesystem::path cached = folder.path() / "plugins";
  const ProbeCache cache(cached, "0.1");
  const FileStamp gone{folder.write("gone.so", "x"), 1, 42};
  cache.keep(gone, rho1());
  std::filesystem::remove(gone.path);
  cache.keep({folder.write("here.so", "x"), 1, 42}, rho1());
  const std::filesystem::directory_iterator entries(cached);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(ProbeCache, HasAPlaceWithoutAHomeThatCanBeWritten) {
  const TemporaryFolder folder;
  std::map<std::string, std::optional<std::string>> before;
  const auto set = [&](const char* name, const char* value) {
    const char* old = getenv(name);
    before.try_emplace(name, old ? std::optional<std::string>(old) : std::nullopt);
    value ? setenv(name, value, 1) : unsetenv(name);
  };
  set("TMPDIR", folder.path().c_str());
  set("XDG_CACHE_HOME", nullptr);
  const std::filesystem::path temporary = folder.path() / ("wmtp-" + std::to_string(geteuid()) + "-plugins");
  for (const char* home : {static_cast<const char*>(nullptr), "", "/proc", "/dev/null", "relative"}) {
    set("HOME", home);
    EXPECT_EQ(ProbeCache::usual_folder(), temporary) << (home ? home : "none");
  }
  set("HOME", (folder.path() / "home").c_str());
  EXPECT_EQ(ProbeCache::usual_folder(), folder.path() / "home/.cache/wmtp/plugins");
  set("XDG_CACHE_HOME", "/proc");
  EXPECT_EQ(ProbeCache::usual_folder(), folder.path() / "home/.cache/wmtp/plugins");
  set("XDG_CACHE_HOME", (folder.path() / "xdg").c_str());
  EXPECT_EQ(ProbeCache::usual_folder(), folder.path() / "xdg/wmtp/plugins");
  for (const auto& [name, value] : before) value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
}

TEST(ProbeCache, IgnoresFailuresToWrite) {
  const TemporaryFolder folder;
  const FileStamp stamp{folder.write("rho1.so", "x"), 1, 42};
  // A file instead of a folder: writing fails for every user, including root.
  const ProbeCache cache(folder.path() / "rho1.so" / "plugins", "0.1");
  EXPECT_NO_THROW(cache.keep(stamp, rho1()));
  EXPECT_FALSE(cache.find(stamp).has_value());
  EXPECT_NO_THROW(ProbeCache("", "0.1").keep(stamp, rho1()));
}

TEST(ProbeCache, StaysIntactWithConcurrentWriters) {
  const TemporaryFolder folder;
  const std::filesystem::path cached = folder.path() / "plugins";
  const FileStamp stamp{folder.write("rho1.so", "x"), 1, 42};
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&] {
      for (int n = 0; n < 50; ++n) ProbeCache(cached, "0.1").keep(stamp, rho1());
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(ProbeCache(cached, "0.1").find(stamp).has_value());
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cached)) files += entry.is_regular_file();
  EXPECT_EQ(files, 1U) << "temporary files were left";
}

}  // namespace
}  // namespace wmtp
