// The way of one run, on one rank: from an experiment to its last line in the log.
#pragma once

#include "base/error.hpp"
#include "engine/run/session.hpp"

namespace wmtp {

/// Runs the stages that the log lacks, then the experiment. [all ranks, collective] The result is the exit status of
/// what ended without an error (done, guard, interrupted); everything else is thrown.
ExitStatus run_with_stages(Session& session, const Experiment& experiment);

}  // namespace wmtp
