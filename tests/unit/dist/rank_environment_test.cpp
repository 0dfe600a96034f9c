#include "dist/rank_environment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "base/error.hpp"

namespace wmtp {
namespace {

class RankEnvironmentTest : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "WMTP_LAUNCHER",
          "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_ID", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_STEP_ID",
          "SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}) {
      unsetenv(name);
    }
  }
  static void set(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
  static std::string refusal() {
    try {
      rank_environment();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::usage);
      return error.what();
    }
    return "";
  }
  const std::map<std::string, std::string> torchrun_{{"RANK", "3"},
                                                     {"WORLD_SIZE", "4"},
                                                     {"LOCAL_RANK", "1"},
                                                     {"LOCAL_WORLD_SIZE", "2"},
                                                     {"MASTER_ADDR", "node1"},
                                                     {"MASTER_PORT", "29500"}};
  const std::map<std::string, std::string> srun_{{"SLURM_PROCID", "5"},
                                                 {"SLURM_NTASKS", "6"},
                                                 {"SLURM_LOCALID", "1"},
                                                 {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"},
                                                 {"SLURM_JOB_ID", "1234567"},
                                                 {"SLURM_STEP_ID", "0"},
                                                 {"SLURM_TASKS_PER_NODE", "2(x3)"}};
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
}

TEST_F(RankEnvironmentTest, ReadsSlurmsTask) {
  set(srun_);
  const auto env = rank_environment();
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 5);
  EXPECT_EQ(env->world_size, 6);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->local_world_size, 2);
  EXPECT_EQ(env->master_addr, "10.0.0.1");
  EXPECT_EQ(env->master_port, 10000 + 1234567 % 20000);
  EXPECT_FALSE(env->own_launcher);
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
  EXPECT_NE(refusal().find("SLURM_LAUNCH_NODE_IPADDR"), std::string::npos);
  EXPECT_NE(refusal().find("srun"), std::string::npos);
}

TEST_F(RankEnvironmentTest, NamesWhatAHalfSetEnvironmentLacks) {
  for (const char* missing : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    set(torchrun_);
    unsetenv(missing);
    EXPECT_NE(refusal().find(std::string(missing) + " is not set"), std::string::npos) << refusal();
  }
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
                                                                                    {"RANK", "1 "},
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

}  // namespace
}  // namespace wmtp
