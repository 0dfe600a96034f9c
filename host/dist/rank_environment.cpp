#include "dist/rank_environment.hpp"

#include <charconv>
#include <cstdlib>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr int lowest_slurm_port = 10000;  // above the registered services, below the ports that systems hand out
constexpr int num_slurm_ports = 20000;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_set(const char* name) { return !variable(name).empty(); }

int integer(const char* name, int min, int max) {
  const std::string text = variable(name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < min || value > max) {
    throw Error(ExitStatus::usage, std::string("environment: ") + name + " is '" + text + "', wanted an integer from " +
                                       std::to_string(min) + " to " + std::to_string(max));
  }
  return value;
}

void require(const std::vector<const char*>& names, const std::string& remedy) {
  std::vector<std::string> present, missing;
  for (const char* name : names) (is_set(name) ? present : missing).push_back(name);
  if (missing.empty()) return;
  throw Error(ExitStatus::usage, "environment: " + join_names(present) + " describe one rank of a job, but " +
                                     join_names(missing) + (missing.size() == 1 ? " is" : " are") + " not set; " +
                                     remedy);
}

constexpr int largest_world = 1 << 20;

RankEnvironment from_torchrun() {
  require({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"},
          "start with torchrun --no-python, which sets them all, or unset RANK, WORLD_SIZE and LOCAL_RANK");
  RankEnvironment env;
  env.world_size = integer("WORLD_SIZE", 1, largest_world);
  env.rank = integer("RANK", 0, env.world_size - 1);
  env.local_world_size = is_set("LOCAL_WORLD_SIZE") ? integer("LOCAL_WORLD_SIZE", 1, env.world_size) : env.world_size;
  env.local_rank = integer("LOCAL_RANK", 0, env.local_world_size - 1);
  env.master_addr = variable("MASTER_ADDR");
  env.master_port = integer("MASTER_PORT", 1, 65535);
  env.own_launcher = variable("WMTP_LAUNCHER") == "1";
  return env;
}

/// "4(x2),1" or "4": tasks on each node. Nodes may differ; the largest is what a device or core is shared by at most.
int slurm_tasks_per_node(int world_size) {
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}) {
    const std::string text = variable(name);
    int largest = 0;
    for (size_t at = 0; at < text.size();
         at = text.find(',', at) == std::string::npos ? text.size() : text.find(',', at) + 1) {
      int count = 0;
      std::from_chars(text.data() + at, text.data() + text.size(), count);
      largest = std::max(largest, count);
    }
    if (largest > 0) return std::min(largest, world_size);
  }
  return world_size;
}

RankEnvironment from_slurm() {
  require({"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}, "start with srun, or unset SLURM_PROCID");
  RankEnvironment env;
  env.world_size = integer("SLURM_NTASKS", 1, largest_world);
  env.rank = integer("SLURM_PROCID", 0, env.world_size - 1);
  env.local_rank = integer("SLURM_LOCALID", 0, env.world_size - 1);
  env.local_world_size = std::max(slurm_tasks_per_node(env.world_size), env.local_rank + 1);
  const char* address = is_set("MASTER_ADDR") ? "MASTER_ADDR" : "SLURM_LAUNCH_NODE_IPADDR";
  require({"SLURM_PROCID", "SLURM_NTASKS", address, is_set("MASTER_PORT") ? "MASTER_PORT" : "SLURM_JOB_ID"},
          "start with srun, or set MASTER_ADDR and MASTER_PORT");
  env.master_addr = variable(address);
  env.master_port = is_set("MASTER_PORT")
                        ? integer("MASTER_PORT", 1, 65535)
                        : lowest_slurm_port + integer("SLURM_JOB_ID", 0, 2147483647) % num_slurm_ports;
  return env;
}

/// The script of an sbatch job has SLURM_PROCID too; only srun's tasks have a step and a launching node.
bool in_slurm_script_of_one_task() {
  return variable("SLURM_STEP_ID").empty() && variable("SLURM_LAUNCH_NODE_IPADDR").empty() && !is_set("MASTER_ADDR") &&
         (!is_set("SLURM_NTASKS") || variable("SLURM_NTASKS") == "1");
}

}  // namespace

std::optional<RankEnvironment> rank_environment() {
  if (is_set("RANK") || is_set("WORLD_SIZE") || is_set("LOCAL_RANK")) return from_torchrun();
  if (is_set("SLURM_PROCID") && !in_slurm_script_of_one_task()) return from_slurm();
  return std::nullopt;
}

int wanted_master_port() { return is_set("MASTER_PORT") ? integer("MASTER_PORT", 1, 65535) : 0; }

}  // namespace wmtp
