// Signals that ask a process to stop.
#pragma once

#include <array>
#include <csignal>

namespace wmtp {

/// What terminals, service managers and batch systems send before they kill: Slurm SIGUSR1 (--signal), SGE SIGUSR2 and
/// SIGXCPU, which the kernel sends at the soft limit of computing time, and Flux SIGALRM at the end of a job's time. A
/// timer that a parent has set before exec, as `perl -e 'alarm 60; exec @ARGV'` does, sends SIGALRM or SIGVTALRM.
inline constexpr std::array stop_signals{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,  SIGUSR1,
                                         SIGUSR2, SIGXCPU, SIGALRM, SIGVTALRM};

/// [when a program begins] Signals that the parent has blocked, as some do around their threads, stay blocked after
/// exec: a request to stop would never arrive.
inline void unblock_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace wmtp
