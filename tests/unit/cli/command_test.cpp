// The program as a user calls it: commands, options, help, errors. It is in the folder of the test program.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace wmtp {
namespace {

struct Outcome {
  int code = -1;
  std::string out, err;
  double seconds = 0;  ///< of processor time
};

double processor_seconds_of_children() {
  rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class CommandTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "cli-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    program_ = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "wmtp-host";
    ASSERT_TRUE(std::filesystem::exists(program_));
    for (const char* variable : {"WMTP_DB", "WMTP_PLUGIN_PATH", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR",
                                 "MASTER_PORT", "SLURM_PROCID"}) {
      unsetenv(variable);
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }

  Outcome host(const std::string& arguments, const std::string& environment = "") const {
    const double before = processor_seconds_of_children();
    const int status = std::system(("cd '" + folder_.string() + "' && " + environment + " '" + program_.string() +
                                    "' " + arguments + " > out 2> err")
                                       .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("out"), read("err"),
            processor_seconds_of_children() - before};
  }

  std::filesystem::path folder_, program_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(CommandTest, HelpShowsExamplesFirstAndListsCommands) {
  const auto help = host("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  EXPECT_LT(help.out.find("examples:"), help.out.find("Usage:"));
  for (const char* command : {"run", "runs", "sql", "plugins", "checkpoint", "data"})
    EXPECT_TRUE(has(help.out, std::string("\n  ") + command + " ")) << command;
  EXPECT_FALSE(has(help.out, "__probe"));
  EXPECT_FALSE(has(help.out, "checkpoint verify runs/"));
}

TEST_F(CommandTest, AcceptsHelpAnywhereOnTheCommandLine) {
  EXPECT_TRUE(has(host("run --help").out, "wmtp-host run experiments/rho1.toml"));
  EXPECT_TRUE(has(host("runs show -h").out, "wmtp-host runs show 3"));
  EXPECT_TRUE(has(host("runs show 3 --json --help").out, "wmtp-host runs show 3"));
  EXPECT_FALSE(has(host("run --help").out, "held-out"));
}

TEST_F(CommandTest, RefusesHelpOfAnUnknownCommand) {
  const auto typed = [&](const std::string& line, const std::string& answer) {
    const auto refused = host(line);
    EXPECT_EQ(refused.code, 2) << line;
    EXPECT_EQ(refused.out, "") << line;
    EXPECT_TRUE(has(refused.err, answer)) << refused.err;
  };
  typed("check --help", "there is no command `wmtp-host check`; did you mean `wmtp-host plugins check`?");
  typed("plug --help", "there is no command `wmtp-host plug`; did you mean 'plugins'?");
  typed("runs lst -h", "there is no command `wmtp-host runs lst`; did you mean 'list'?");
}

TEST_F(CommandTest, NamesThePathOfAMissingLog) {
  for (const std::string command : {"runs show 1", "runs compare 1 2", "export rho1 --to csv", "report 1 -o x.html"}) {
    const auto refused = host(command);
    EXPECT_EQ(refused.code, 2) << command;
    EXPECT_TRUE(has(refused.err, "no run log at " + (folder_ / "runs/wmtp.db").string())) << refused.err;
    EXPECT_TRUE(has(refused.err, "--db FILE or WMTP_DB")) << refused.err;
  }
}

TEST_F(CommandTest, WrapsLongDescriptionsInTheHelp) {
  for (const std::string command : {"", "run", "runs list", "runs compare", "plan", "checkpoint", "data", "eval"}) {
    std::istringstream lines(host(command + " --help").out);
    for (std::string line; std::getline(lines, line);) {
      const bool is_description = line.starts_with(std::string(30, ' '));
      if (line.find(":{") != std::string::npos) continue;  // a list of choices is one word
      EXPECT_LE(line.size(), is_description ? 100u : 120u) << command << ": " << line;
    }
  }
  EXPECT_TRUE(has(host("plan --help").out, "l40s and rtx4090\n")) << "wrapped, not cut";
}

TEST_F(CommandTest, RefusesANewPluginWhoseNameIsTaken) {
  for (const std::string kind : {"pipeline", "adapter"}) {
    const auto refused = host("plugins new rho1 --kind " + kind);
    EXPECT_EQ(refused.code, 2);
    EXPECT_TRUE(has(refused.err, "there is already a pipeline 'rho1'; choose another name")) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "rho1"));
  }
}

TEST_F(CommandTest, IsQuickWithHelpAndAnEmptyLog) {
  double help = 1, list = 1;
  for (int i = 0; i < 5; ++i) {
    help = std::min(help, host("--help").seconds);
    list = std::min(list, host("runs list").seconds);
  }
  EXPECT_LT(help, 0.05);
  EXPECT_LT(list, 0.05);
}

TEST_F(CommandTest, PrintsItsVersion) {
  const auto version = host("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out, "wmtp-host " WMTP_VERSION "\n");
}

TEST_F(CommandTest, ShowsHelpWithoutACommand) {
  for (const char* words : {"", "runs", "plugins"}) {
    const auto bare = host(words);
    EXPECT_EQ(bare.code, 2);
    EXPECT_EQ(bare.out, "");
    EXPECT_TRUE(has(bare.err, "Usage:")) << words;
  }
}

TEST_F(CommandTest, NamesTheNearestCommand) {
  const auto mistake = host("plugin list");
  EXPECT_EQ(mistake.code, 2);
  EXPECT_TRUE(has(mistake.err, "there is no command `wmtp-host plugin`; did you mean 'plugins'?")) << mistake.err;
  EXPECT_TRUE(has(host("runs shwo 3").err, "did you mean 'show'?"));
  EXPECT_TRUE(has(host("quux").err, "see `wmtp-host --help`"));
}

TEST_F(CommandTest, NamesTheNearestOption) {
  const auto mistake = host("sql 'SELECT 1' --limti=3");
  EXPECT_EQ(mistake.code, 2);
  EXPECT_TRUE(has(mistake.err, "`wmtp-host sql` has no option --limti; did you mean '--limit'?")) << mistake.err;
  EXPECT_TRUE(has(host("run a.toml --resmue").err, "did you mean '--resume'?"));
}

TEST_F(CommandTest, LeadsHabitsFromElsewhereToOurWords) {
  EXPECT_TRUE(has(host("trian").err, "did you mean 'train'?"));
  EXPECT_EQ(host("help runs list").out, host("runs list --help").out);
  EXPECT_TRUE(
      has(host("run a.toml --lr 1e-3").err, "has no option --lr; set the experiment's key: --set optimizer.lr="));
  for (const char* option : {"--train.steps 5", "--train-steps=5", "--steps 5"})
    EXPECT_TRUE(has(host(std::string("run a.toml ") + option).err, "set the experiment's key: --set train.steps="));
  EXPECT_TRUE(has(host("run a.toml --batch-size 3").err, "--set train.batch_size="));
  EXPECT_TRUE(has(host("run a.toml --seed 3").err, "--set seed="));
  EXPECT_TRUE(has(host("chat").err, "did you mean `wmtp-host generate MODEL --chat`?"));
  EXPECT_TRUE(has(host("inspect x").err, "did you mean `wmtp-host plugins inspect` or `wmtp-host data inspect`?"));
  for (const char* shipped : {"experiments/rho1.toml", "my/experiments/weightings/focal.toml", "rho1.toml"})
    EXPECT_TRUE(has(host(std::string("run ") + shipped).err,
                    "no such file; `wmtp-host experiments --copy experiments` copies the shipped experiments here"));
  EXPECT_TRUE(has(host("run own.toml").err, "no such file; pass the path of an experiment (.toml)"));
  EXPECT_TRUE(has(host("run seed=3").err, "seed=3: no such file; if it is a key of the experiment: --set seed=3"));
}

TEST_F(CommandTest, ListsAcceptConditions) {
  EXPECT_EQ(
      host("runs list --status finished --status lost --name 'a*' --where x.y=1 --sort seconds --reverse --json").out,
      "[]\n");
  for (const char* wrong : {"--status done", "--sort speed", "--limit 0", "--where keep"})
    EXPECT_EQ(host(std::string("runs list ") + wrong).code, 2) << wrong;
  EXPECT_EQ(host("runs show 3 --toml --json").code, 2);
}

TEST_F(CommandTest, RefusesMissingAndWrongArguments) {
  for (const char* words :
       {"run", "runs show", "sql", "run a.toml --nproc 0", "run a.toml --nproc x", "sql 'SELECT 1' --json --csv",
        "sql 'SELECT 1' --limit 0", "run a.toml --set", "plugins list --kind optimizer", "checkpoint export 3",
        "checkpoint export 3 -o x --to gguf", "checkpoint import x -o y --future-tokens 0",
        "checkpoint export 3 -o x --dtype fp16", "checkpoint import x", "checkpoint merge x -o y",
        "checkpoint merge x --base y"}) {
    const auto refused = host(words);
    EXPECT_EQ(refused.code, 2) << words;
    EXPECT_TRUE(has(refused.err, "--help`")) << words << ": " << refused.err;
    EXPECT_EQ(refused.out, "") << words;
  }
}

TEST_F(CommandTest, RefusesEmptyPathsByTheirNames) {
  for (const auto& [words, name] : std::map<std::string, std::string>{{"run ''", "FILE"},
                                                                      {"plan ''", "FILE"},
                                                                      {"init ''", "DATA"},
                                                                      {"data convert '' --to x", "FILE"},
                                                                      {"data convert x --to ''", "--to"},
                                                                      {"report 1 -o ''", "--output"}}) {
    const auto refused = host(words);
    EXPECT_EQ(refused.code, 2) << words;
    EXPECT_TRUE(has(refused.err, name + " is empty, wanted a path")) << words << ": " << refused.err;
  }
}

TEST_F(CommandTest, RefusesWrongArgumentsOfUiAndReport) {
  for (const char* words : {"report", "report 3", "report -o x.html", "ui --port 70000", "ui --port x", "ui 3"}) {
    const auto refused = host(words);
    EXPECT_EQ(refused.code, 2) << words;
    EXPECT_TRUE(has(refused.err, "--help`")) << words << ": " << refused.err;
  }
}

TEST_F(CommandTest, AcceptsACommandsNameAsARun) {
  EXPECT_TRUE(has(host("runs show data").err, "no run log"));
  EXPECT_FALSE(has(host("runs show data").err, "required"));
}

TEST_F(CommandTest, AcceptsGlobalOptionsBeforeAndAfterTheCommand) {
  std::ofstream(folder_ / "new.db");  // as a run has just created it
  for (const char* words : {"--db new.db -q --no-color sql 'SELECT 1 AS one' --json",
                            "sql --db new.db 'SELECT 1 AS one' --json -q --no-color"}) {
    const auto answer = host(words);
    EXPECT_EQ(answer.code, 0) << answer.err;
    EXPECT_TRUE(has(answer.out, "\"one\"")) << answer.out;
  }
  EXPECT_EQ(host("--plugin-dir absent plugins list --plugin-dir absent2").code, 2);
}

TEST_F(CommandTest, PrefersDbOverTheEnvironment) {
  std::ofstream(folder_ / "text.db") << "not a database, but long enough to be one: " << std::string(200, 'x');
  EXPECT_EQ(host("runs list").code, 0);
  EXPECT_EQ(host("runs list", "WMTP_DB=text.db").code, 7);
  EXPECT_EQ(host("runs list --db absent.db", "WMTP_DB=text.db").code, 2);
}

TEST_F(CommandTest, NamesAMissingExperiment) {
  const auto missing = host("run absent.toml");
  EXPECT_EQ(missing.code, 2);
  EXPECT_TRUE(has(missing.err, "absent.toml"));
}

TEST_F(CommandTest, RefusesAnIncompleteLauncherEnvironmentFirst) {
  const auto refused = host("run absent.toml", "RANK=0 WORLD_SIZE=2");
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(has(refused.err, "MASTER_ADDR and MASTER_PORT are not set")) << refused.err;
}

TEST_F(CommandTest, DistinguishesInvalidFromUnknownPluginNames) {
  EXPECT_EQ(host("plugins inspect ../x").code, 2);
  EXPECT_EQ(host("plugins inspect absent").code, 3);
  EXPECT_EQ(host("plugins inspect absent --kind adapter").code, 3);
}

TEST_F(CommandTest, RefusesAMissingCheckpoint) {
  const auto refused = host("checkpoint verify there/absent");
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(has(refused.err, "there/absent does not exist; wanted a model's folder, or a run's number or name"));
}

}  // namespace
}  // namespace wmtp
