#include "engine/run/rank.hpp"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "base/work_progress.hpp"
#include "core/job/engine_process.hpp"
#include "engine/memory/allocator.hpp"
#include "engine/memory/caught_error.hpp"
#include "engine/run/run_experiment.hpp"
#include "engine/train/stop_signal.hpp"

namespace wmtp {
namespace {

/// `first`: no other rank prints the same. Under a foreign launcher each rank may have its own log, so each prints.
int fail(const Error& error, const RankEnvironment& environment, bool first = true) {
  std::cout.flush();
  const bool ours = first && (error.status() != ExitStatus::peer || environment.rank == 0);
  if (ours || !environment.own_launcher) std::cerr << "wmtp-host: " << error.what() << std::endl;
  return int(error.status());
}

[[noreturn]] void leave(int status) {
  std::cout.flush();
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace

void run_rank(const Job& job, const RankEnvironment& environment) {
  std::unique_ptr<Peers> peers;
  std::unique_ptr<Session> session;
  if (environment.rank != 0) hide_progress();
  try {
    watch_signals();
    install_allocator();
    peers = std::make_unique<Peers>(environment, timeout_of(job.experiment));
    session = std::make_unique<Session>(job, environment, *peers);
    const ExitStatus status = run_with_stages(*session, job.experiment);
    session.reset();
    peers.reset();
    leave(status == ExitStatus::done && environment.own_launcher ? finished_exit_code : int(status));
  } catch (...) {
    const Error error = caught_error();
    const bool first = !peers || peers->post_fault(error);
    leave(fail(error, environment, first));
  }
}

}  // namespace wmtp
