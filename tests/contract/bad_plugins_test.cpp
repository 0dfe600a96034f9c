// Faulty plugins, probed by the real program: the catalog refuses each with its own reason, and this process survives.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"
#include "base/installation.hpp"
#include "plugins/catalog.hpp"
#include "plugins/probe.hpp"

namespace wmtp {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace std::chrono_literals;

class BadPlugins : public testing::Test {
 protected:
  BadPlugins() {
    folder_ = std::filesystem::temp_directory_path() / ("wmtp-bad-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
    setenv("WMTP_CANARY", canary().c_str(), 1);
  }
  ~BadPlugins() override {
    set_probe_program(engine_program(), 20s);
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path canary() const { return folder_ / "canary"; }
  static std::filesystem::path plugins() { return library_folder().parent_path() / "tests" / "plugins"; }

  std::string refusal(const std::string& name) {
    try {
      Catalog({plugins() / "bad"}).describe(PluginKind::pipeline, name);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::plugin);
      return error.what();
    }
    return "";
  }
  std::filesystem::path folder_;
};

TEST_F(BadPlugins, OfAnotherSdkIsRefusedWithBothValuesBeforeItsCodeRuns) {
  EXPECT_THAT(refusal("other_sdk"),
              AllOf(HasSubstr("built for sdk 0.99, headers "), HasSubstr("; this host is sdk 0.9, headers ")));
  EXPECT_FALSE(std::filesystem::exists(canary()));
}

TEST_F(BadPlugins, OfTheSameSdkWithAnotherHeaderIsRefusedBeforeItsCodeRuns) {
  EXPECT_THAT(refusal("other_headers"), AllOf(HasSubstr("built for sdk 0.9, headers 0123456789ab, "),
                                              HasSubstr("; this host is sdk 0.9, headers "),
                                              HasSubstr("build the plugin again with this host's sdk")));
  EXPECT_FALSE(std::filesystem::exists(canary()));
}

TEST_F(BadPlugins, WithoutAnEntryIsRefusedBeforeItsCodeRuns) {
  EXPECT_THAT(refusal("no_entry"), HasSubstr("without a plugin's entry"));
  EXPECT_FALSE(std::filesystem::exists(canary()));
}

TEST_F(BadPlugins, ThatAbortsOrExitsWhenItIsLoadedIsRefused) {
  EXPECT_THAT(refusal("aborts"), HasSubstr("signal 6"));
  EXPECT_TRUE(std::filesystem::exists(canary())) << "the canary was not written: the tests above prove nothing";
  EXPECT_THAT(refusal("exits"), HasSubstr("before it was described"));
}

TEST_F(BadPlugins, ThatNeverComesBackIsStopped) {
  set_probe_program(engine_program(), 5s);
  EXPECT_THAT(refusal("loops"), HasSubstr("longer than 5 s"));
}

TEST_F(BadPlugins, ThatIsTruncatedIsRefused) {
  std::filesystem::create_directories(folder_ / "pipelines");
  const std::filesystem::path cut = folder_ / "pipelines/value_objective.so";
  std::filesystem::copy_file(plugins() / "pipelines/value_objective.so", cut);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 2);
  EXPECT_THROW(
      {
        try {
          Catalog({folder_}).describe(PluginKind::pipeline, "value_objective");
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("truncated"));
          throw;
        }
      },
      Error);
}

TEST_F(BadPlugins, WithAWrongSchemaOfItsOwnIsRefused) {
  EXPECT_THAT(refusal("bad_schema"), AllOf(HasSubstr("'keep'"), HasSubstr("default")));
}

TEST_F(BadPlugins, ThatWritesToStdoutIsStillDescribed) { EXPECT_EQ(refusal("writes"), ""); }

TEST_F(BadPlugins, GoodOnesAreDescribedByTheProgram) {
  const Catalog catalog({plugins()});
  EXPECT_EQ(catalog.describe(PluginKind::pipeline, "value_objective").role, PluginRole::objective);
  EXPECT_EQ(catalog.describe(PluginKind::adapter, "small_lora").options.size(), 2U);
  EXPECT_EQ(catalog.describe(PluginKind::pipeline, "rho1").options.size(), 5U);
}

}  // namespace
}  // namespace wmtp
