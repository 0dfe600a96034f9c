// Launcher: the parent of all ranks of one job on this machine. [launcher process; knows no LibTorch]
//
// 1. picks a free port on the loopback, starts `num_ranks` children with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
//    MASTER_PORT, WMTP_LAUNCHER=1; each dies with its parent (PR_SET_PDEATHSIG)
// 2. forwards their stdout and stderr line by line, never mixing two lines; lines of ranks other than 0 get "[rank N] "
//    (rank 0's terminal stays a terminal when ours is one, so that it can draw its progress line)
// 3. SIGINT and SIGTERM are passed to all ranks (second one: SIGKILL at once)
// 4. the first rank to end badly decides: the others get `grace_seconds` to report the same fault, then SIGTERM, then
//    SIGKILL; no rank outlives this call
// The result is the first bad rank's exit code; a rank killed by a signal counts as peer lost (6) and is named.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace wmtp {

struct LaunchRequest {
  std::filesystem::path program;        ///< this executable
  std::vector<std::string> arguments;   ///< argv[1..] of each rank
  int num_ranks = 1;
  double grace_seconds = 5;
  int port = 0;                         ///< 0: pick a free one; a taken one is Error(usage)
};

struct LaunchResult {
  ExitStatus status = ExitStatus::done;
  bool rank0_died = false;              ///< it could not close the run's row itself
};

LaunchResult launch_ranks(const LaunchRequest& request);

}  // namespace wmtp
