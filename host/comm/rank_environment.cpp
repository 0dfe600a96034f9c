#include "comm/rank_environment.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/environment.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/network.hpp"

namespace wmtp {
namespace {

// Above registered ports, below ephemeral ports.
constexpr int lowest_derived_port = 10000;
constexpr int num_derived_ports = 20000;

std::string variable(const char* name) { return std::string(without_outer_space(environment_value(name))); }

bool is_set(const char* name) { return !variable(name).empty(); }

std::optional<int> number_in(std::string_view text, int min, int max) {
  const auto value = parsed_number<int>(without_outer_space(text));
  return value && *value >= min && *value <= max ? value : std::nullopt;
}

int integer(const char* name, int min, int max) {
  const std::string text = variable(name);
  const auto value = number_in(text, min, max);
  if (!value) {
    throw Error(ExitStatus::usage, std::string("environment: ") + name + " is '" + text + "', wanted an integer from " +
                                       std::to_string(min) + " to " + std::to_string(max));
  }
  return *value;
}

/// `also`: a further variable because of which all are required.
void require(const std::vector<const char*>& names, const std::string& remedy, const char* also = nullptr) {
  std::vector<std::string> present, missing;
  if (also && is_set(also)) present.emplace_back(also);
  for (const char* name : names) (is_set(name) ? present : missing).emplace_back(name);
  if (missing.empty()) return;
  throw Error(ExitStatus::usage, "environment: " + join_names(present) +
                                     (present.size() == 1 ? " describes" : " describe") + " one rank of a job, but " +
                                     join_names(missing) + (missing.size() == 1 ? " is" : " are") + " not set; " +
                                     remedy);
}

constexpr int max_world_size = 1 << 20;

std::string launcher_text(const std::string& name, const char* size_variable) {
  return name + " (" + size_variable + " is " + variable(size_variable) + ")";
}

std::optional<int> optional_integer(const char* name, int min, int max) {
  return is_set(name) ? std::optional(integer(name, min, max)) : std::nullopt;
}

RankEnvironment from_torchrun() {
  require({"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
          "start with torchrun --no-python, which sets them all, or unset RANK, WORLD_SIZE and LOCAL_RANK",
          "LOCAL_RANK");
  RankEnvironment env;
  env.world_size = integer("WORLD_SIZE", 1, max_world_size);
  env.rank = integer("RANK", 0, env.world_size - 1);
  env.local_world_size = optional_integer("LOCAL_WORLD_SIZE", 1, env.world_size);
  env.local_rank = optional_integer("LOCAL_RANK", 0, env.local_world_size.value_or(env.world_size) - 1);
  env.launcher = launcher_text(is_set("TORCHELASTIC_RUN_ID") ? "torchrun" : "a launcher", "WORLD_SIZE");
  env.master_addr = variable("MASTER_ADDR");
  env.master_port = integer("MASTER_PORT", 1, 65535);
  env.own_launcher = variable("WMTP_LAUNCHER") == "1";
  env.is_watched = is_set("WMTP_LAUNCHER");
  env.agent_store = !env.own_launcher && variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return env;
}

/// Of srun, which the batch script of sbatch lacks.
bool is_in_slurm_step() { return is_set("SLURM_STEP_ID") || is_set("SLURM_STEP_NODELIST"); }

/// The tasks of the step that srun started. SLURM_NTASKS is what the job was given: another number in a step of fewer
/// tasks, such as the shell of salloc.
const char* slurm_size() { return is_set("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS"; }

RankEnvironment from_slurm() {
  const char* const size = slurm_size();
  require({"SLURM_PROCID", size, "SLURM_LOCALID"}, "start with srun, or unset SLURM_PROCID");
  RankEnvironment env;
  env.world_size = integer(size, 1, max_world_size);
  env.launcher = launcher_text("srun", size);
  env.rank = integer("SLURM_PROCID", 0, env.world_size - 1);
  env.local_rank = integer("SLURM_LOCALID", 0, env.world_size - 1);
  const std::string hosts = variable("SLURM_STEP_NODELIST");
  if (!hosts.empty() && hosts.find_first_of(",[") == std::string::npos) env.local_world_size = env.world_size;
  const char* address = is_set("MASTER_ADDR") ? "MASTER_ADDR" : "SLURM_STEP_NODELIST";
  require({"SLURM_PROCID", size, address, is_set("MASTER_PORT") ? "MASTER_PORT" : "SLURM_JOB_ID"},
          is_in_slurm_step() ? "start with srun, or set MASTER_ADDR and MASTER_PORT"
                             : "start with srun, or unset SLURM_PROCID to start all ranks here with --nproc");
  env.master_addr = is_set("MASTER_ADDR") ? variable(address) : first_host(variable(address));
  env.master_port = is_set("MASTER_PORT")
                        ? integer("MASTER_PORT", 1, 65535)
                        : lowest_derived_port + integer("SLURM_JOB_ID", 0, 2147483647) % num_derived_ports;
  return env;
}

/// The same on every rank of a job; rarely the same for two jobs.
int port_of_job(const std::string& name) {
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : name) hash = (hash ^ uint8_t(c)) * 16777619;
  return lowest_derived_port + int(hash % num_derived_ports);
}

struct MpiNames {
  const char *launcher, *rank, *size, *local_rank, *local_size, *job, *pass_on;
};
constexpr MpiNames open_mpi{"mpirun",
                            "OMPI_COMM_WORLD_RANK",
                            "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE",
                            "PMIX_NAMESPACE",
                            "mpirun -x MASTER_ADDR -x MASTER_PORT"};
constexpr MpiNames mpich{"mpiexec",
                         "PMI_RANK",
                         "PMI_SIZE",
                         "MPI_LOCALRANKID",
                         "MPI_LOCALNRANKS",
                         "MASTER_PORT",
                         "mpiexec -genv MASTER_ADDR HOST -genv MASTER_PORT PORT"};

RankEnvironment from_mpi(const MpiNames& names) {
  require({names.rank, names.size}, std::string("start with ") + names.launcher + ", or unset " + names.rank);
  RankEnvironment env;
  env.world_size = integer(names.size, 1, max_world_size);
  env.launcher = launcher_text(names.launcher, names.size);
  env.rank = integer(names.rank, 0, env.world_size - 1);
  env.local_world_size = optional_integer(names.local_size, 1, env.world_size);
  env.local_rank = optional_integer(names.local_rank, 0, env.local_world_size.value_or(env.world_size) - 1);
  const bool one_host = env.local_world_size == env.world_size;
  const std::string remedy = std::string("set the address of rank 0 for every rank: ") + names.pass_on;
  if (!one_host) require({names.rank, names.size, "MASTER_ADDR"}, remedy);
  require({names.rank, names.size, is_set("MASTER_PORT") ? "MASTER_PORT" : names.job}, remedy);
  if (is_set("MASTER_ADDR")) env.master_addr = variable("MASTER_ADDR");
  env.master_port = is_set("MASTER_PORT") ? integer("MASTER_PORT", 1, 65535) : port_of_job(variable(names.job));
  return env;
}

/// One process is no job: `srun --pty`, salloc and `mpirun -n 1` start shells and programs that start ranks themselves.
bool is_one(const char* size) { return number_in(variable(size), 1, 1).has_value(); }

/// Whether srun started this process as one of several. The batch script of sbatch has SLURM_PROCID, too, but no step.
bool is_slurm_task() {
  const char* const size = slurm_size();
  if (!is_set("SLURM_PROCID") || is_one(size)) return false;
  if (!is_set(size) && !is_in_slurm_step() && !is_set("MASTER_ADDR")) return false;
  // Slurm's PMI repeats the size of the step. In another one, srun started mpiexec's proxies, which started this
  // process.
  return !is_set(mpich.rank) || !is_set(mpich.size) || variable(mpich.size) == variable(size);
}

std::optional<RankEnvironment> described_rank() {
  if (is_set("RANK") || is_set("WORLD_SIZE") || is_set("LOCAL_RANK")) return from_torchrun();
  if (is_set(open_mpi.rank) && !is_one(open_mpi.size))
    return from_mpi(open_mpi);  // first: srun may have started mpirun
  if (is_slurm_task()) return from_slurm();
  if (is_set(mpich.rank) && !is_one(mpich.size)) return from_mpi(mpich);
  return std::nullopt;
}

/// The same on all ranks of a job. Distinguishes jobs, but is not a secret. Hosts that our own launchers join are told
/// apart by their port: each may be a step of its own under another launcher.
std::string name_of_job() {
  if (variable("WMTP_LAUNCHER") == "node") return variable("MASTER_PORT");
  std::string name;
  for (const char* part : {"SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "TORCHELASTIC_RUN_ID", "MASTER_PORT"})
    name += variable(part) + "/";
  return name;
}

}  // namespace

bool RankEnvironment::on_one_host() const { return local_world_size == world_size || is_loopback(master_addr); }

std::optional<RankEnvironment> rank_environment() {
  std::optional<RankEnvironment> environment = described_rank();
  if (!environment) return environment;
  environment->token = environment_value(token_variable);
  environment->token_is_given = !environment->token.empty();
  if (!environment->token_is_given) environment->token = name_of_job();
  return environment;
}

std::string first_host(const std::string& host_list) {
  std::string host;
  for (size_t at = 0; at < host_list.size() && host_list[at] != ','; ++at) {
    if (host_list[at] != '[') {
      host += host_list[at];
      continue;
    }
    const size_t number_end = host_list.find_first_of("-,]", at), bracket_end = host_list.find(']', at);
    if (bracket_end == std::string::npos) return {};
    host += host_list.substr(at + 1, number_end - at - 1);
    at = bracket_end;
  }
  return host;
}

int wanted_master_port() { return is_set("MASTER_PORT") ? integer("MASTER_PORT", 1, 65535) : 0; }

void check_thread_count() {
  constexpr const char* name = "OMP_NUM_THREADS";
  constexpr int max_threads = 1024;
  const std::string text = variable(name);
  if (text.empty()) {
    unsetenv(name);  // libgomp warns about an empty value
    return;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (!number_in(std::string_view(text).substr(begin, end - begin), 1, max_threads))
      throw Error(ExitStatus::usage, std::string("environment: ") + name + " is " + printable(text) + ", wanted 1 to " +
                                         std::to_string(max_threads) +
                                         " threads; unset it to give every rank its share of the cores");
    begin = end + 1;
  }
}

}  // namespace wmtp
