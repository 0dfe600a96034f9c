// Which rank of which job this process is: from our launcher, torchrun or Slurm. Read once, at the start.
#pragma once

#include <optional>
#include <string>

namespace wmtp {

struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  bool own_launcher = false;  ///< started by `wmtp-host run` itself
};

/// The job that the environment describes (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; else SLURM_PROCID,
/// SLURM_NTASKS, SLURM_LOCALID with MASTER_ADDR from SLURM_LAUNCH_NODE_IPADDR and a port from SLURM_JOB_ID), or nothing
/// when this process stands alone: MASTER_ADDR and MASTER_PORT by themselves describe no job, nor does the script of a
/// Slurm job of one task. A half-set environment is Error(usage) naming what is missing.
std::optional<RankEnvironment> rank_environment();

/// MASTER_PORT, for a process that stands alone and starts ranks; 0 when it is not set. Error(usage) when it is no
/// port.
int wanted_master_port();

}  // namespace wmtp
