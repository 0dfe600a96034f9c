#include "plugins/catalog.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include "base/error.hpp"
#include "base/installation.hpp"
#include "plugins/probe.hpp"
#include "support/refusal.hpp"
#include "support/running.hpp"
#include "support/temporary_folder.hpp"

namespace wmtp {
namespace {

using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

/// Prints the description of a good plugin, with the name from the path in the question.
constexpr char good_child[] = R"(
name=$(basename "$2" .so)
echo "$2" >> "$(dirname "$0")/asked"
echo '{"kind":"pipeline","role":"weighting","name":"'$name'","version":"1.0",'
echo '"summary":"s","needs":null,"path":"","sha256":"","options":[]}'
)";

/// libwmtp_core.so with one exported name replaced by an entry symbol.
std::string library_with_entry() {
  std::string bytes = test::bytes_of(library_folder() / "libwmtp_core.so");
  const std::string name = "_ZN4wmtp14is_plugin_nameERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
  const size_t at = bytes.find(name);
  EXPECT_NE(at, std::string::npos);
  std::string entry = "wmtp_plugin__sdk_0_1__torch_2_11_0__gcc_12__abi_1";
  entry.resize(name.size(), '\0');
  return bytes.replace(at, name.size(), entry);
}

class CatalogTest : public testing::Test {
 protected:
  CatalogTest() {
    setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1);
    unsetenv("WMTP_PLUGIN_PATH");
    child(good_child);
  }
  ~CatalogTest() override { set_probe_program(engine_program(), 20s); }

  void child(const std::string& script, std::chrono::milliseconds limit = 10s) {
    set_probe_program(folder_.write_program("child", script), limit);
  }
  std::filesystem::path add(const std::string& root, const std::string& name) {
    return folder_.write(root + "/pipelines/" + name + ".so", library_with_entry());
  }
  std::string refusal(const Catalog& catalog, const std::string& name, ExitStatus status = ExitStatus::plugin) {
    return test::refusal(status, [&] { catalog.describe(PluginKind::pipeline, name); });
  }
  size_t times_asked() {
    const std::string asked = test::bytes_of(folder_.path() / "asked");
    return size_t(std::count(asked.begin(), asked.end(), '\n'));
  }

  TemporaryFolder folder_;
};

TEST_F(CatalogTest, AcceptsOnlyValidNames) {
  for (const char* name : {"a", "rho1", "small_lora", "abcdefghijklmnopqrstuvwxyz012345"})
    EXPECT_TRUE(is_plugin_name(name));
  add("a", "good");
  const Catalog catalog({folder_.path() / "a"});
  const std::string with_nul("rho1\0", 5);
  for (const std::string& name : {std::string(), std::string("../evil"), std::string("/etc/passwd"), std::string("a/b"),
                                  std::string("Rho1"), std::string("1rho"), std::string("_rho"), std::string("rho-1"),
                                  std::string("good.so"), std::string(33, 'a'), std::string(300, 'a'), with_nul}) {
    EXPECT_FALSE(is_plugin_name(name)) << name;
    EXPECT_THAT(refusal(catalog, name, ExitStatus::usage), HasSubstr("is not a valid plugin name")) << name;
  }
  EXPECT_EQ(times_asked(), 0U);
}

TEST_F(CatalogTest, TheFirstFolderWins) {
  const auto first = add("first", "rho1");
  add("second", "rho1");
  setenv("WMTP_PLUGIN_PATH",
         (":" + (folder_.path() / "absent").string() + ":" + (folder_.path() / "second").string()).c_str(), 1);
  EXPECT_EQ(Catalog({folder_.path() / "first"}).describe(PluginKind::pipeline, "rho1").path, first);
  const Catalog by_variable({});
  EXPECT_EQ(by_variable.describe(PluginKind::pipeline, "rho1").path, folder_.path() / "second/pipelines/rho1.so");
  ASSERT_EQ(by_variable.folders().size(), 3U) << "an empty part is not a folder";
  EXPECT_EQ(by_variable.folders().back(), own_plugin_folder());

  size_t shadowed = 0;
  for (const auto& one : Catalog({folder_.path() / "first"}).list()) shadowed += one.shadowed ? 1 : 0;
  EXPECT_GE(shadowed, 1U);
}

TEST_F(CatalogTest, AnAbsentPluginIsReportedWithASimilarNameAndTheSearchedFolders) {
  add("a", "rho1");
  const Catalog catalog({folder_.path() / "a"});
  EXPECT_THAT(refusal(catalog, "roh1"),
              AllOf(HasSubstr("did you mean 'rho1'?"), HasSubstr((folder_.path() / "a/pipelines").string()),
                    HasSubstr((own_plugin_folder() / "pipelines").string())));
  EXPECT_THROW(Catalog({folder_.path() / "absent"}), Error);
}

TEST_F(CatalogTest, ABadFileIsRefusedAndLaterFoldersAreNotSearched) {
  folder_.write("first/pipelines/rho1.so", "text");
  add("second", "rho1");
  const Catalog catalog({folder_.path() / "first", folder_.path() / "second"});
  EXPECT_THAT(refusal(catalog, "rho1"), HasSubstr("not a shared library"));
  std::filesystem::remove(folder_.path() / "first/pipelines/rho1.so");
  std::filesystem::create_symlink("/nowhere", folder_.path() / "first/pipelines/rho1.so");
  EXPECT_THAT(refusal(catalog, "rho1"), HasSubstr("symbolic link"));
  EXPECT_EQ(times_asked(), 0U);
}

TEST_F(CatalogTest, RunsTheChildOnceForAFile) {
  add("a", "rho1");
  const Catalog catalog({folder_.path() / "a"});
  const PluginDescription first = catalog.describe(PluginKind::pipeline, "rho1");
  EXPECT_EQ(first.sha256.size(), 64U);
  EXPECT_EQ(catalog.describe(PluginKind::pipeline, "rho1").sha256, first.sha256);
  EXPECT_EQ(times_asked(), 1U);
  std::filesystem::last_write_time(first.path, std::filesystem::file_time_type::clock::now() + 5s);
  catalog.describe(PluginKind::pipeline, "rho1");
  EXPECT_EQ(times_asked(), 2U) << "a changed file was not probed again";
}

TEST_F(CatalogTest, AFileThatContainsAnotherPluginIsRefused) {
  add("a", "rho2");
  std::string script = good_child;
  script.replace(script.find("'$name'"), 7, "rho1");
  child(script);
  EXPECT_THAT(refusal(Catalog({folder_.path() / "a"}), "rho2"), AllOf(HasSubstr("'rho1'"), HasSubstr("'rho2'")));
}

TEST_F(CatalogTest, TheDeathOfTheChildIsReported) {
  add("a", "rho1");
  const Catalog catalog({folder_.path() / "a"});
  child("echo 'first' >&2; echo 'terminate called' >&2; kill -ABRT $$");
  EXPECT_THAT(refusal(catalog, "rho1"),
              AllOf(HasSubstr("signal 6"), HasSubstr("terminate called"), Not(HasSubstr("first"))));
  child("exit 0");
  EXPECT_THAT(refusal(catalog, "rho1"), HasSubstr("exit code 0 before it was described"));
  child("echo '{}'");
  EXPECT_THAT(refusal(catalog, "rho1"), HasSubstr("returned no description"));
  child("echo '{\"refused\": \"rho1.so: built for another\", \"status\": 3}'; exit 3");
  EXPECT_EQ(refusal(catalog, "rho1"), "rho1.so: built for another");
  set_probe_program(folder_.path() / "absent", 1s);
  EXPECT_THAT(refusal(catalog, "rho1"), HasSubstr("cannot start"));
}

TEST_F(CatalogTest, AChildThatNeverEndsIsStoppedWithItsChildren) {
  add("a", "rho1");
  const std::string pid_file = (folder_.path() / "pid").string();
  child("sleep 60 & echo $! > " + pid_file + "; wait", 500ms);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(refusal(Catalog({folder_.path() / "a"}), "rho1"), HasSubstr("longer than 0.5 s"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  const pid_t started = std::stoi(test::bytes_of(pid_file));
  bool alive = true;
  for (int i = 0; i < 100 && alive; ++i) {
    alive = test::is_running(started);
    if (alive) usleep(20'000);
  }
  EXPECT_FALSE(alive);
}

TEST_F(CatalogTest, ListsBadFilesWithTheirProblem) {
  add("a", "good");
  folder_.write("a/pipelines/bad.so", "text");
  folder_.write("a/pipelines/Loud.so", "text");
  folder_.write("a/pipelines/notes.txt", "text");
  std::map<std::string, std::string> problems;
  for (const auto& one : Catalog({folder_.path() / "a"}).list()) {
    if (one.description.path.string().starts_with(folder_.path().string()))
      problems[one.description.name] = one.problem;
  }
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_EQ(problems["good"], "");
  EXPECT_THAT(problems["bad"], HasSubstr("not a shared library"));
  EXPECT_THAT(problems["Loud"], HasSubstr("not a valid plugin name"));
}

TEST_F(CatalogTest, DescribesAtMostTwoPluginsAtATime) {
  for (const char* name : {"one", "two", "three", "four", "five"}) add("a", name);
  const std::string now = (folder_.path() / "now").string();
  std::filesystem::create_directory(now);
  child("touch " + now + "/$$; ls " + now + " | wc -l >> " + (folder_.path() / "counts").string() + "; sleep 0.3; rm " +
        now + "/$$;" + good_child);
  Catalog({folder_.path() / "a"}).list();
  const std::string counts = test::bytes_of(folder_.path() / "counts");
  EXPECT_THAT(counts, HasSubstr("2"));
  EXPECT_THAT(counts, AllOf(Not(HasSubstr("3")), Not(HasSubstr("4")), Not(HasSubstr("5"))));
}

}  // namespace
}  // namespace wmtp
