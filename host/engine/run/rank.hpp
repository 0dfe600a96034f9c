// The rank boundary: one rank of a job, from its environment to its exit code.
#pragma once

#include "core/job/job.hpp"
#include "core/rendezvous/rank_environment.hpp"

namespace wmtp {

/// Runs the job on this rank and ends the process. Under our own launcher the stages are trained already; under a
/// foreign one the ranks train those that the log lacks, one after another. What went wrong is printed on stderr and
/// posted to the other ranks. Collectives that may never finish are not waited for.
[[noreturn]] void run_rank(const Job& job, const RankEnvironment& environment);

}  // namespace wmtp
