// Which rank of which job this process is: from our launcher, torchrun, Slurm or an MPI. Read once, at the start.
#pragma once

#include <optional>
#include <string>

namespace wmtp {

struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  std::optional<int> local_rank;        ///< among the ranks of this host; launchers that start one rank a host omit it
  std::optional<int> local_world_size;  ///< ranks of this host; where it is not given, the ranks find out themselves
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  bool own_launcher = false;    ///< started by `wmtp-host run` itself
  bool agent_store = false;     ///< at master_port is a store of torchrun's agent, where rank 0 says where it listens
  std::string token;            ///< what a connection to the rendezvous has to know
  bool token_is_given = false;  ///< by WMTP_TOKEN; else it follows from the launcher's name of the job

  /// Whether all ranks are known to be on this host, so that they meet on its loopback.
  bool on_one_host() const;
};

/// The job's token in a rank's environment. Our own launcher draws one for each job; under another the user may set it.
inline constexpr const char* token_variable = "WMTP_TOKEN";

/// The job that the environment describes, or nothing when this process is alone. The first of these that is there:
///   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, with LOCAL_RANK and LOCAL_WORLD_SIZE (torchrun; PyTorchJob has no
///   LOCAL_RANK)
///   OMPI_COMM_WORLD_RANK and _SIZE (Open MPI): on one host rank 0 is on the loopback and the port follows from
///   PMIX_NAMESPACE; on several MASTER_ADDR and MASTER_PORT are needed
///   SLURM_PROCID, SLURM_NTASKS (srun): rank 0 is on the first host of SLURM_STEP_NODELIST, unless MASTER_ADDR names
///   another; the port follows from SLURM_JOB_ID, unless MASTER_PORT names one; a list of one host says that all are
///   there PMI_RANK, PMI_SIZE (MPICH, Intel MPI): MASTER_PORT is needed, on several hosts MASTER_ADDR too
/// MASTER_ADDR and MASTER_PORT alone describe no job, nor does the script of a Slurm job of one task. An incomplete
/// environment is Error(usage) that names what is missing.
std::optional<RankEnvironment> rank_environment();

/// MASTER_PORT, for a process that starts ranks itself; 0 when it is not set. Error(usage) when it is no port.
int wanted_master_port();

/// Error(usage) where OMP_NUM_THREADS is set, but not to 1 to 1024 (for each level of teams, with commas between):
/// libgomp would take all cores for every rank, or end the process. To be called before LibTorch is loaded.
void check_thread_count();

/// The first host of a Slurm host list: "gpu[03-05,09],login" -> "gpu03", "r[1-2]n[0-7]" -> "r1n0".
std::string first_host(const std::string& host_list);

}  // namespace wmtp
