// Launches and watches all ranks of one job on this machine. [launcher process]
//
// 1. picks a free port on the loopback, starts `num_ranks` children with RANK, WORLD_SIZE, LOCAL_RANK,
//    LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, WMTP_TOKEN (drawn for this job) and WMTP_LAUNCHER=1; each leads its
//    own process group (a terminal's Ctrl-C reaches only the launcher) and is killed when the launcher ends
//    (PR_SET_PDEATHSIG)
// 2. forwards their stdout and stderr line by line, never mixing two lines; lines of ranks other than 0 get "[rank N] "
//    (rank 0's terminal stays a terminal when ours is one, so that it can draw its progress line)
// 3. the first request to stop (process/stop_requests.hpp) is forwarded to all ranks, without a time limit; a repeated
//    one kills them
// 4. when a rank fails, the others have `grace_seconds` to report the same fault (`kill_seconds` when the rank reports
//    a lost peer, because it has already waited), then get SIGTERM, and after `kill_seconds` SIGKILL; no rank outlives
//    this call or this process; that the rank failed is told after what the others report
// 5. names a rank that has been stopped (SIGSTOP, a debugger), within seconds, and when it runs again; it is waited for
//    as the others wait, at most timeout_seconds
//
// A rank that has finished exits with finished_exit_code. Exit code 0 means that a library called exit(0) in the middle
// of the work, and counts as a lost rank.
//
// With a `share`, the job has ranks on other hosts, started by their launchers: 1. sets the given address and port,
// WMTP_LAUNCHER=node and no WMTP_TOKEN.
//
// The result is the first specific fault (2, 3, 4, 5, 7, 8, 70), otherwise 75, otherwise 6. A rank that was killed by a
// signal or exited with 0 counts as 6 and is named; one killed by the forwarded signal counts as 75; an unknown exit
// code counts as 70.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "process/child_process.hpp"

namespace wmtp {

/// This host's ranks of a job on several hosts: first_rank, first_rank + 1 ...
struct HostShare {
  int first_rank = 0, world_size = 1;
  std::string address;  ///< of rank 0
};

struct LaunchRequest {
  std::function<ChildProcess(const ChildRequest&)> start_rank;  ///< by its arguments; released once all have started
  std::vector<std::string> arguments;                           ///< of each rank
  std::map<std::string, std::string> environment;               ///< in addition to ours and the variables above
  int num_ranks = 1;
  double grace_seconds = 3;
  double kill_seconds = 0.5;
  double timeout_seconds = 120;
  int port = 0;  ///< 0: any free one; given with a share
  std::optional<HostShare> share;

  int first_rank() const { return share ? share->first_rank : 0; }
};

struct LaunchResult {
  ExitStatus status = ExitStatus::done;
  std::string reason;           ///< "rank 1 was killed by SIGKILL"; empty when done
  bool stop_requested = false;  ///< by the user, whatever the ranks did then
};

/// Returns when all ranks have ended. Error(usage) if the port is in use, Error(peer) if the loopback interface cannot
/// be used, Error(storage) if a process or pipe cannot be created.
LaunchResult launch_ranks(LaunchRequest request);

}  // namespace wmtp
