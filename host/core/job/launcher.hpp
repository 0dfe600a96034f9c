// Launcher: the parent of all ranks of one job on this machine. [launcher process; knows no LibTorch]
//
// 1. picks a free port on the loopback, starts `num_ranks` children with RANK, WORLD_SIZE, LOCAL_RANK,
//    LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, WMTP_TOKEN (drawn anew), WMTP_LAUNCHER=1 and, unless it is set,
//    OMP_NUM_THREADS (cores / ranks); each is in a process group of its own (a terminal's Ctrl-C reaches only us) and
//    dies with us (PR_SET_PDEATHSIG)
// 2. forwards their stdout and stderr line by line, never mixing two lines; lines of ranks other than 0 get "[rank N] "
//    (rank 0's terminal stays a terminal when ours is one, so that it can draw its progress line)
// 3. SIGINT, SIGTERM and SIGHUP are passed to all ranks once, with no time limit; the second one: SIGKILL at once
// 4. the first rank to end badly decides: the others get `grace_seconds` to report the same fault (`kill_seconds` when
//    it reports a lost peer: it has waited already), then SIGTERM, then after `kill_seconds` SIGKILL; no rank outlives
//    this call, nor this process
//
// A rank that has finished all that it had to do ends with finished_exit_code; 0 is what a library's exit(0) makes of a
// rank in the middle of its work, and counts as a lost rank.
//
// The result: a fault of its own kind (2, 3, 4, 5, 7, 8, 70; the first of them) wins over 75, which wins over 6. A rank
// killed by a signal counts as 6 and is named, as is one that ended with 0; one killed by the signal that we passed on
// counts as 75; an exit code that is none of ours as 70.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace wmtp {

struct LaunchRequest {
  std::filesystem::path program;                   ///< wmtp-engine
  std::vector<std::string> arguments;              ///< argv[1..] of each rank
  std::map<std::string, std::string> environment;  ///< beside ours and the variables above
  int num_ranks = 1;
  double grace_seconds = 3;
  double kill_seconds = 0.5;
  int port = 0;  ///< 0: pick a free one; a taken one is Error(usage)
};

struct LaunchResult {
  ExitStatus status = ExitStatus::done;
  std::string reason;  ///< "rank 1 was killed by SIGKILL"; empty when done
};

/// Error(usage) for a taken port, Error(peer) when nothing can listen on the loopback, Error(storage) when the system
/// gives no process or pipe. Returns when all ranks ended.
LaunchResult launch_ranks(const LaunchRequest& request);

}  // namespace wmtp
