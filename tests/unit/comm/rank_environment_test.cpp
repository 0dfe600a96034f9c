#include "comm/rank_environment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

class RankEnvironmentTest : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"RANK",
                             "WORLD_SIZE",
                             "LOCAL_RANK",
                             "LOCAL_WORLD_SIZE",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "WMTP_LAUNCHER",
                             "TORCHELASTIC_USE_AGENT_STORE",
                             "TORCHELASTIC_RUN_ID",
                             "WMTP_TOKEN",
                             "OMP_NUM_THREADS",
                             "SLURM_PROCID",
                             "SLURM_NTASKS",
                             "SLURM_LOCALID",
                             "SLURM_JOB_ID",
                             "SLURM_STEP_ID",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_STEP_NODELIST",
                             "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK",
                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMIX_NAMESPACE",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "MPI_LOCALRANKID",
                             "MPI_LOCALNRANKS"}) {
      unsetenv(name);
    }
  }
  static void set(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
  static std::string refusal() {
    return test::refusal(ExitStatus::usage, [] { rank_environment(); });
  }
  const std::map<std::string, std::string> torchrun_{{"RANK", "3"},
                                                     {"WORLD_SIZE", "4"},
                                                     {"LOCAL_RANK", "1"},
                                                     {"LOCAL_WORLD_SIZE", "2"},
                                                     {"MASTER_ADDR", "node1"},
                                                     {"MASTER_PORT", "29500"}};
  const std::map<std::string, std::string> srun_{{"SLURM_PROCID", "5"},
                                                 {"SLURM_NTASKS", "6"},
                                                 {"SLURM_STEP_NUM_TASKS", "6"},
                                                 {"SLURM_LOCALID", "1"},
                                                 {"SLURM_STEP_NODELIST", "gpu[03-05]"},
                                                 {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"},
                                                 {"SLURM_JOB_ID", "1234567"},
                                                 {"SLURM_STEP_ID", "0"}};
  const std::map<std::string, std::string> mpirun_{{"OMPI_COMM_WORLD_RANK", "1"},
                                                   {"OMPI_COMM_WORLD_SIZE", "2"},
                                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                   {"PMIX_NAMESPACE", "prterun-node1-4242@1"}};
  const std::map<std::string, std::string> mpiexec_{{"PMI_RANK", "1"},
                                                    {"PMI_SIZE", "2"},
                                                    {"MPI_LOCALRANKID", "1"},
                                                    {"MPI_LOCALNRANKS", "2"},
                                                    {"MASTER_PORT", "4000"}};
};

TEST_F(RankEnvironmentTest, FindsNothingInAnOrdinaryShell) { EXPECT_FALSE(rank_environment()); }

TEST_F(RankEnvironmentTest, ReadsTorchrunsJob) {
  set(torchrun_);
  const auto env = rank_environment();
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 3);
  EXPECT_EQ(env->world_size, 4);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->local_world_size, 2);
  EXPECT_EQ(env->master_addr, "node1");
  EXPECT_EQ(env->master_port, 29500);
  EXPECT_FALSE(env->own_launcher);
}

TEST_F(RankEnvironmentTest, KnowsItsOwnLauncher) {
  set(torchrun_);
  set({{"WMTP_LAUNCHER", "1"}});
  EXPECT_TRUE(rank_environment()->own_launcher);
  EXPECT_TRUE(rank_environment()->is_watched);
  set({{"WMTP_LAUNCHER", "node"}});
  EXPECT_FALSE(rank_environment()->own_launcher) << "other hosts have launchers of their own";
  EXPECT_TRUE(rank_environment()->is_watched);
}

TEST_F(RankEnvironmentTest, ReadsSlurmsTask) {
  set(srun_);
  const auto env = rank_environment();
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 5);
  EXPECT_EQ(env->world_size, 6);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->local_world_size, std::nullopt) << "hosts may hold different numbers of tasks";
  EXPECT_EQ(env->master_addr, "gpu03") << "where rank 0 runs, not where srun was typed";
  EXPECT_EQ(env->master_port, 10000 + 1234567 % 20000);
  EXPECT_FALSE(env->own_launcher);
}

TEST_F(RankEnvironmentTest, KnowsWhenAllRanksAreOnOneHost) {
  set(srun_);
  EXPECT_FALSE(rank_environment()->on_one_host());
  set({{"SLURM_STEP_NODELIST", "gpu07"}});
  EXPECT_TRUE(rank_environment()->on_one_host());
  EXPECT_EQ(rank_environment()->local_world_size, 6);
  clear();
  set(torchrun_);
  EXPECT_FALSE(rank_environment()->on_one_host()) << "two of four ranks are";
  set({{"LOCAL_WORLD_SIZE", "4"}});
  EXPECT_TRUE(rank_environment()->on_one_host());
  unsetenv("LOCAL_WORLD_SIZE");
  set({{"MASTER_ADDR", "localhost"}});
  EXPECT_FALSE(rank_environment()->on_one_host()) << "some operators tell rank 0 so, and only rank 0";
  set({{"MASTER_ADDR", "127.0.0.1"}});
  EXPECT_TRUE(rank_environment()->on_one_host());
}

TEST_F(RankEnvironmentTest, TakesTheTokenThatIsGivenOrTheJobsName) {
  set(srun_);
  const auto derived = rank_environment();
  EXPECT_FALSE(derived->token_is_given);
  set({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}});
  EXPECT_EQ(rank_environment()->token, derived->token) << "the same on all ranks";
  set({{"SLURM_STEP_ID", "1"}});
  EXPECT_NE(rank_environment()->token, derived->token) << "another job's";
  set({{"WMTP_LAUNCHER", "node"}, {"MASTER_PORT", "29500"}});
  const std::string of_port = rank_environment()->token;
  set({{"SLURM_STEP_ID", "2"}});
  EXPECT_EQ(rank_environment()->token, of_port) << "each host's launcher may be a step of its own";
  set({{"WMTP_TOKEN", "secret"}});
  EXPECT_EQ(rank_environment()->token, "secret");
  EXPECT_TRUE(rank_environment()->token_is_given);
}

TEST_F(RankEnvironmentTest, FindsTheFirstHostOfASlurmHostList) {
  EXPECT_EQ(first_host("node7"), "node7");
  EXPECT_EQ(first_host("node7,node9"), "node7");
  EXPECT_EQ(first_host("gpu[03-05,09],login"), "gpu03");
  EXPECT_EQ(first_host("gpu[9,11-12]"), "gpu9");
  EXPECT_EQ(first_host("rack[1-2]node[0-7]-ib"), "rack1node0-ib");
  EXPECT_EQ(first_host("gpu[03"), "");
}

TEST_F(RankEnvironmentTest, ReadsAnOpenMpiJobOfOneHost) {
  set(mpirun_);
  const auto env = rank_environment();
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 1);
  EXPECT_EQ(env->world_size, 2);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->local_world_size, 2);
  EXPECT_EQ(env->master_addr, "127.0.0.1");
  EXPECT_GE(env->master_port, 10000);
  EXPECT_LT(env->master_port, 30000);
  set({{"PMIX_NAMESPACE", "prterun-node1-4243@1"}});
  EXPECT_NE(rank_environment()->master_port, env->master_port) << "two jobs of one host meet at two ports";
}

TEST_F(RankEnvironmentTest, WantsToKnowWhereRank0OfAnMpiJobOfSeveralHostsIs) {
  set(mpirun_);
  set({{"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_NE(refusal().find("MASTER_ADDR is not set"), std::string::npos) << refusal();
  EXPECT_NE(refusal().find("mpirun -x MASTER_ADDR"), std::string::npos) << refusal();
  set({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "4000"}});
  EXPECT_EQ(rank_environment()->master_addr, "node1");
  EXPECT_EQ(rank_environment()->master_port, 4000);
}

TEST_F(RankEnvironmentTest, PrefersMpirunInsideASlurmTask) {
  set(srun_);
  set(mpirun_);
  EXPECT_EQ(rank_environment()->rank, 1);
}

TEST_F(RankEnvironmentTest, ReadsAnMpichJobThatHasAPort) {
  set(mpiexec_);
  const auto env = rank_environment();
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 1);
  EXPECT_EQ(env->world_size, 2);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->master_addr, "127.0.0.1");
  EXPECT_EQ(env->master_port, 4000);
  unsetenv("MASTER_PORT");
  EXPECT_NE(refusal().find("MASTER_PORT is not set"), std::string::npos) << refusal();
}

TEST_F(RankEnvironmentTest, PrefersSlurmToThePmiThatItProvides) {
  set(mpiexec_);
  set(srun_);
  set({{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}});
  EXPECT_EQ(rank_environment()->rank, 5);
  EXPECT_EQ(rank_environment()->master_addr, "gpu03");
}

TEST_F(RankEnvironmentTest, PrefersMpiexecWhoseProxiesSrunStarted) {
  set(mpiexec_);
  set(srun_);
  EXPECT_EQ(rank_environment()->rank, 1);
  EXPECT_EQ(rank_environment()->world_size, 2);
}

TEST_F(RankEnvironmentTest, StandsAloneAsTheOnlyProcessOfALauncher) {
  set({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
  EXPECT_FALSE(rank_environment()) << "mpiexec -n 1";
  clear();
  set({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", " 1"}});
  EXPECT_FALSE(rank_environment()) << "mpirun -n 1";
  clear();
  set(srun_);
  set({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_FALSE(rank_environment()) << "srun --pty bash";
  set({{"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "4294967290"}});
  EXPECT_FALSE(rank_environment()) << "salloc -n 4";
  set({{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "4000"}});
  EXPECT_FALSE(rank_environment()) << "a meeting point alone is no job";
  set(mpiexec_);
  EXPECT_EQ(rank_environment()->world_size, 2) << "mpiexec in the shell of srun";
}

TEST_F(RankEnvironmentTest, CountsTheTasksOfTheStepAndNotOfTheSlurmJob) {
  set(srun_);
  set({{"SLURM_NTASKS", "8"}});
  EXPECT_EQ(rank_environment()->world_size, 6);
  EXPECT_EQ(rank_environment()->launcher, "srun (SLURM_STEP_NUM_TASKS is 6)");
  unsetenv("SLURM_STEP_NUM_TASKS");
  EXPECT_EQ(rank_environment()->launcher, "srun (SLURM_NTASKS is 8)");
  clear();
  set(mpirun_);
  EXPECT_EQ(rank_environment()->launcher, "mpirun (OMPI_COMM_WORLD_SIZE is 2)");
  set(torchrun_);
  EXPECT_EQ(rank_environment()->launcher, "a launcher (WORLD_SIZE is 4)");
}

TEST_F(RankEnvironmentTest, TakesEmptyVariablesForUnset) {
  set({{"RANK", ""},
       {"WORLD_SIZE", ""},
       {"LOCAL_RANK", " "},
       {"MASTER_PORT", ""},
       {"SLURM_PROCID", ""},
       {"PMI_RANK", ""}});
  EXPECT_FALSE(rank_environment());
  EXPECT_EQ(wanted_master_port(), 0);
}

TEST_F(RankEnvironmentTest, ToleratesSpacesAroundNumbers) {
  set(torchrun_);
  set({{"RANK", " 2"}, {"WORLD_SIZE", "4\n"}, {"MASTER_PORT", "29500 "}});
  EXPECT_EQ(rank_environment()->rank, 2);
  EXPECT_EQ(rank_environment()->world_size, 4);
  EXPECT_EQ(rank_environment()->master_port, 29500);
}

TEST_F(RankEnvironmentTest, LeavesTheLocalRankOpenWhereALauncherDoesNotSayIt) {
  set(torchrun_);
  unsetenv("LOCAL_RANK");
  unsetenv("LOCAL_WORLD_SIZE");
  EXPECT_EQ(rank_environment()->local_rank, std::nullopt);
  EXPECT_EQ(rank_environment()->local_world_size, std::nullopt);
}

TEST_F(RankEnvironmentTest, KnowsThatTorchrunsAgentServesTheRendezvous) {
  set(torchrun_);
  EXPECT_FALSE(rank_environment()->agent_store);
  set({{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_TRUE(rank_environment()->agent_store);
  set({{"WMTP_LAUNCHER", "1"}});
  EXPECT_FALSE(rank_environment()->agent_store) << "ranks of our own launcher, started inside torchrun";
}

TEST_F(RankEnvironmentTest, LetsTheUserChooseSlurmsMeetingPoint) {
  set(srun_);
  set({{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "4000"}});
  EXPECT_EQ(rank_environment()->master_addr, "node7");
  EXPECT_EQ(rank_environment()->master_port, 4000);
}

TEST_F(RankEnvironmentTest, PrefersTorchrunInsideASlurmTask) {
  set(srun_);
  set(torchrun_);
  EXPECT_EQ(rank_environment()->rank, 3);
}

TEST_F(RankEnvironmentTest, StandsAloneInASlurmScriptOfOneTask) {
  set({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", "12"}});
  EXPECT_FALSE(rank_environment());
  set({{"SLURM_NTASKS", "1"}});
  EXPECT_FALSE(rank_environment());
}

TEST_F(RankEnvironmentTest, RefusesASlurmScriptOfSeveralTasksThatForgotSrun) {
  set({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", "12"}, {"SLURM_NTASKS", "4"}});
  EXPECT_NE(refusal().find("SLURM_STEP_NODELIST"), std::string::npos);
  EXPECT_NE(refusal().find("start with srun, or unset SLURM_PROCID"), std::string::npos) << refusal();
  EXPECT_EQ(refusal().find("MASTER_ADDR"), std::string::npos) << "the other ranks would never come";
}

TEST_F(RankEnvironmentTest, NamesWhatAHalfSetEnvironmentLacks) {
  for (const char* missing : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    set(torchrun_);
    unsetenv(missing);
    EXPECT_NE(refusal().find(std::string(missing) + " is not set"), std::string::npos) << refusal();
  }
}

TEST_F(RankEnvironmentTest, NamesTheVariableThatAloneDescribesARank) {
  set({{"LOCAL_RANK", "1"}});
  EXPECT_NE(refusal().find("environment: LOCAL_RANK describes one rank of a job"), std::string::npos) << refusal();
}

TEST_F(RankEnvironmentTest, DoesNotTakeAMeetingPointAloneForAJob) {
  set({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}});
  EXPECT_FALSE(rank_environment());
  EXPECT_EQ(wanted_master_port(), 29500);
}

TEST_F(RankEnvironmentTest, RefusesNumbersThatMakeNoSense) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"RANK", "4"},
                                                                                    {"RANK", "-1"},
                                                                                    {"RANK", "one"},
                                                                                    {"RANK", "1 2"},
                                                                                    {"WORLD_SIZE", "0"},
                                                                                    {"WORLD_SIZE", "99999999999"},
                                                                                    {"LOCAL_RANK", "2"},
                                                                                    {"LOCAL_WORLD_SIZE", "5"},
                                                                                    {"MASTER_PORT", "0"},
                                                                                    {"MASTER_PORT", "65536"}}) {
    set(torchrun_);
    set({{name, value}});
    EXPECT_NE(refusal().find("is '" + value + "'"), std::string::npos) << name << '=' << value << ": " << refusal();
  }
  clear();
  set({{"MASTER_PORT", "http"}});
  EXPECT_THROW(wanted_master_port(), Error);
}

TEST_F(RankEnvironmentTest, ThreadsThatNoLibraryTakesAreRefused) {
  const auto refused = [](const std::string& text) {
    set({{"OMP_NUM_THREADS", text}});
    try {
      check_thread_count();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::usage);
      EXPECT_NE(std::string(error.what()).find("OMP_NUM_THREADS is \"" + text + "\", wanted 1 to 1024 threads"),
                std::string::npos)
          << error.what();
      return true;
    }
    return false;
  };
  for (const char* text : {"0", "abc", "-1", "1000000", "1025", "2.5", "2 2", "2,", "2,0", "99999999999999999999"})
    EXPECT_TRUE(refused(text)) << text;
  for (const char* text : {"1", "7", "1024", "4,2", " 2 ", "4, 2", "", " "}) EXPECT_FALSE(refused(text)) << text;
  EXPECT_EQ(getenv("OMP_NUM_THREADS"), nullptr) << "libgomp warns about an empty one";
  unsetenv("OMP_NUM_THREADS");
  EXPECT_NO_THROW(check_thread_count());
}

}  // namespace
}  // namespace wmtp
