// The rank and job of this process, as set by our launcher, torchrun, Slurm or MPI. Read once, at startup.
#pragma once

#include <optional>
#include <string>

namespace wmtp {

struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  std::optional<int> local_rank;        ///< among the ranks of this host; not set by launchers of one rank per host
  std::optional<int> local_world_size;  ///< ranks of this host; if not set, derived from the places of all ranks
  std::string launcher;                 ///< "srun (SLURM_STEP_NUM_TASKS is 4)", for messages
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  bool own_launcher = false;    ///< started by `wmtp-host run` itself, with all other ranks
  bool is_watched = false;      ///< by `wmtp-host run`, which started the ranks of this host: own_launcher, or --nodes
  bool agent_store = false;     ///< torchrun's agent serves a store at master_port, where rank 0 publishes its address
  std::string token;            ///< must be presented to connect to the rendezvous
  bool token_is_given = false;  ///< by WMTP_TOKEN; otherwise derived from the launcher's job id

  /// Whether all ranks are known to run on this host, so that they can use its loopback.
  bool on_one_host() const;
};

/// The job's token. Our launcher draws one per job; under another launcher the user may set it.
inline constexpr const char* token_variable = "WMTP_TOKEN";

/// The job described by the environment, or nullopt for a single process. The first of:
///   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, with LOCAL_RANK and LOCAL_WORLD_SIZE (torchrun; PyTorchJob has no
///   LOCAL_RANK)
///   OMPI_COMM_WORLD_RANK and _SIZE (Open MPI): on one host rank 0 is on the loopback and the port is derived from
///   PMIX_NAMESPACE; on several hosts MASTER_ADDR and MASTER_PORT are required
///   SLURM_PROCID, SLURM_STEP_NUM_TASKS, else SLURM_NTASKS (srun): rank 0 is on MASTER_ADDR, otherwise
///   the first host of SLURM_STEP_NODELIST; the
///   port is MASTER_PORT, otherwise derived from SLURM_JOB_ID; a list of one host means that all ranks are there
///   PMI_RANK, PMI_SIZE (MPICH, Intel MPI): MASTER_PORT is required, on several hosts MASTER_ADDR too
/// MASTER_ADDR and MASTER_PORT alone do not describe a job. Nor does one process of srun (`srun --pty bash`, salloc),
/// of sbatch or of mpirun, which may start ranks of its own. An empty variable counts as unset. Error(usage) names what
/// an incomplete environment lacks.
std::optional<RankEnvironment> rank_environment();

/// MASTER_PORT for our launcher; 0 if not set. Error(usage) if it is not a port.
int wanted_master_port();

/// Error(usage) if OMP_NUM_THREADS is set to anything but 1 to 1024 (a list with commas for nested teams): libgomp
/// would use all cores for every rank, or end the process. Unsets it if empty. [before LibTorch is loaded, one thread]
void check_thread_count();

/// The first host of a Slurm host list: "gpu[03-05,09],login" -> "gpu03", "r[1-2]n[0-7]" -> "r1n0".
std::string first_host(const std::string& host_list);

}  // namespace wmtp
